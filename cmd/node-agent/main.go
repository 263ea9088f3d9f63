// Command node-agent is limpet-agent, the DaemonSet of Limpet. On every node it installs
// limpet-ipam, corrects the plugin's state file and shows the state in the API. The command
// limpet-agent uninstall removes what the agent installed on the node.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2/textlogger"
	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/agent"
	"github.com/limpet-io/limpet/internal/agent/show"
	"github.com/limpet-io/limpet/internal/cni/coexist"
	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/cni/node"
	"github.com/limpet-io/limpet/internal/cni/recovery"
	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/internal/platform/endpoint"
	"github.com/limpet-io/limpet/internal/version"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// usage stands before the list of flags in the help text.
const usage = `limpet-agent is the node agent of Limpet. It installs the CNI plugin limpet-ipam, frees
reservations whose deadline has passed, and shows the state of the node in the API as
IPReservation and NodeIPPool objects.

Usage:
  limpet-agent [flags]             run the agent, as the DaemonSet does
  limpet-agent uninstall [flags]   restore a network configuration that the agent has
                                   patched; when no pod needs them, remove Limpet's own, the
                                   plugin and the routes; the state file stays
  limpet-agent version             print the version

Flags:
`

func main() {
	os.Exit(run())
}

func run() int {
	o := Default()
	o.addFlags(pflag.CommandLine)
	printVersion := pflag.Bool("version", false, "print the version and exit")
	pflag.Usage = func() {
		fmt.Fprint(os.Stderr, usage)
		pflag.PrintDefaults()
	}
	pflag.Parse()
	if *printVersion || pflag.Arg(0) == "version" {
		fmt.Fprintln(os.Stdout, "limpet-agent", version.String())
		return 0
	}
	if o.Node == "" {
		o.Node = os.Getenv("NODE_NAME")
	}
	log := textlogger.NewLogger(textlogger.NewConfig())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := start(ctx, pflag.Arg(0), o, log); err != nil {
		fmt.Fprintln(os.Stderr, "limpet-agent:", err)
		return 1
	}
	return 0
}

// start runs a command; the agent without one.
func start(ctx context.Context, command string, o options, log logr.Logger) error {
	if err := o.validate(); err != nil {
		return err
	}
	c := agent.Config{
		Node: o.Node, Version: version.Release(), PluginFile: o.PluginFile, BinDir: o.BinDir, ConfDir: o.ConfDir, StateDir: o.StateDir,
		OwnNetwork: o.Network == "own", Flannel: o.Network == "flannel", SubnetEnv: "/run/flannel/subnet.env", PodNetworks: o.PodNetworks, Adopt: o.Network == "adopt", Accepts: accepts, Shared: o.Network == "shared", Ranges: ranges, Ask: machine.Ask, Announce: machine.Announce, MaxRetain: o.MaxReservation, SharePercent: o.MaxReservedPercent,
		NetNSDir: o.NetNSDir, NetNS: machine.StatNetNS, Clock: clock.RealClock{}, Log: log.WithValues("node", o.Node),
		AuditPeriod: o.AuditPeriod, Pace: show.DefaultPace(), Running: running(o.ResultsDir), VerbLog: o.PluginLog, Directories: o.directories(),
	}
	switch command {
	case "":
	case "uninstall":
		return uninstall(ctx, c, o)
	default: // such as a misspelled uninstall, which must not start an agent
		return fmt.Errorf("%q is not a command: run limpet-agent --help", command)
	}
	var err error
	if c.Now, err = machine.ReadClocks(o.BootIDFile, time.Now); err != nil {
		return err
	}
	if c.REST, err = findAPIServer(os.Getenv(clientcmd.RecommendedConfigPathEnvVar)); err != nil {
		return err
	}
	if err := readPodsFrom(ctx, &c, o); err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		endpoint.BuildInfo("limpet-agent", version.Release()))
	c.Registry = registry
	a, err := agent.New(c)
	if err != nil {
		return err
	}
	servePorts(ctx, o, a, registry, log)
	return a.Run(ctx)
}

// running returns the function that compares libcni's cache with the state. The agent has no
// right to enter network namespaces, so each namespace that exists counts as having its addresses.
func running(resultsDir string) func(dir string) ([]reservation.Attachment, error) {
	host := node.Node{NetNS: machine.StatNetNS, ResultsDir: resultsDir}
	return (&recovery.Recovery{Node: host, Others: &coexist.Neighbour{Node: host}}).Running
}

// ranges returns what limpet-ipam reads of a network that nodes share.
func ranges(conf []byte) (segment string, sets []ipam.Set, err error) {
	c, err := netconf.Decode(conf).ParseAdd()
	if err != nil {
		return "", nil, err
	}
	return c.Segment, c.Sets, nil
}

// accepts returns why limpet-ipam would refuse a configuration.
func accepts(conf []byte) error {
	_, err := netconf.Decode(conf).ParseStatus()
	return err
}
