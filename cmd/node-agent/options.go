package main

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/limpet-io/limpet/internal/agent/pods"
	"github.com/limpet-io/limpet/internal/cni"
	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// options are the flags of limpet-agent; addFlags explains each.
type options struct {
	Node               string
	Network            string
	PodNetworks        []netip.Prefix
	PluginFile         string
	BinDir             string
	ConfDir            string
	StateDir           string
	NetNSDir           string
	ResultsDir         string
	AuditPeriod        time.Duration
	PluginLog          string
	Pods               string
	KubeletSocket      string
	RuntimeEndpoint    string
	BootIDFile         string
	MaxReservation     time.Duration
	MaxReservedPercent int
	Address            string
	MetricsAddress     string
	Wait               bool
}

// directories returns those of the host that the agent works in, or reads from.
func (o *options) directories() []string {
	all := []string{o.BinDir, o.ConfDir, o.StateDir, o.NetNSDir, o.ResultsDir}
	for _, file := range []string{o.PluginLog, o.KubeletSocket, o.RuntimeEndpoint} {
		if path := strings.TrimPrefix(file, "unix://"); path != "" {
			all = append(all, filepath.Dir(path))
		}
	}
	return all
}

// Default returns the options that fit the manifests in deploy/daemonset.
func Default() options {
	return options{
		Network: "none", PluginFile: "/limpet-ipam", BinDir: "/opt/cni/bin", ConfDir: "/etc/cni/net.d",
		StateDir: persistence.DefaultDir, NetNSDir: "/var/run/netns", ResultsDir: cni.DefaultResultsDir, AuditPeriod: time.Minute, PluginLog: cni.DefaultLogFile,
		Pods: "auto", KubeletSocket: pods.DefaultKubeletSocket, RuntimeEndpoint: pods.DefaultRuntimeSocket, BootIDFile: machine.BootIDPath, MaxReservation: reservation.DefaultMaxRetain,
		MaxReservedPercent: reservation.DefaultSharePercent, Address: ":9414",
	}
}

// addFlags registers the options as flags, with their present values as defaults.
func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Node, "node-name", o.Node, "name of this machine's Node object; empty: the value of the environment variable NODE_NAME")
	fs.StringVar(&o.Network, "network", o.Network, "own: be the pod network of the node: the agent writes network configuration and routes; adopt: put limpet-ipam in the place of host-local in the network configuration of the node (bridge, ptp, macvlan or ipvlan), again after each change by its owner; uninstall restores it; flannel: limpet.dev/retention: follow works where flannel with host-gw or vxlan is the network, and its ConfigMap names limpet-ipam; shared: it works where nodes share an L2 segment, and their network configuration has ipam.sharedNetwork; none: it writes neither")
	fs.Func("pod-networks", "with --network=own: networks in which the pod CIDRs of nodes must be, such as 10.244.0.0/16,fd00:10:244::/48: those of --cluster-cidr of kube-controller-manager; empty: private networks, and that of the node's own pod CIDR; ranges of a NodeNetwork need not be in them", func(text string) error {
		for t := range strings.SplitSeq(text, ",") {
			p, err := netip.ParsePrefix(t)
			if err != nil {
				return err
			}
			o.PodNetworks = append(o.PodNetworks, p.Masked())
		}
		return nil
	})
	fs.StringVar(&o.PluginFile, "plugin", o.PluginFile, "plugin binary to install; empty: install none")
	fs.StringVar(&o.BinDir, "cni-bin-dir", o.BinDir, "directory in which the container runtime looks for plugins")
	fs.StringVar(&o.ConfDir, "cni-conf-dir", o.ConfDir, "directory in which the container runtime looks for network configurations")
	fs.StringVar(&o.StateDir, "state-dir", o.StateDir, "directory of the plugin's state file: ipam.dataDir of the networks on this node")
	fs.StringVar(&o.NetNSDir, "netns-dir", o.NetNSDir, "directory in which the container runtime binds the network namespaces of pods; the agent cannot check a namespace in another directory, so it never ends an attachment that has one")
	fs.StringVar(&o.ResultsDir, "cni-results-dir", o.ResultsDir, "libcni's result cache, with which the audit compares the state")
	fs.DurationVar(&o.AuditPeriod, "audit-period", o.AuditPeriod, "time between two audits of the state")
	fs.StringVar(&o.PluginLog, "plugin-log", o.PluginLog, "log of the plugin (ipam.logFile), from which the agent makes the metrics of verbs; empty: make none")
	fs.StringVar(&o.Pods, "pods", o.Pods, "where the agent reads the pods of its node; kubelet: the socket of the kubelet's PodsAPI; runtime: the socket of the container runtime, which shows annotations as of the creation of a sandbox; api: the API server; auto: kubelet if its socket has a server when the agent starts, else api")
	fs.StringVar(&o.KubeletSocket, "kubelet-pods-socket", o.KubeletSocket, "socket of the kubelet's PodsAPI")
	fs.StringVar(&o.RuntimeEndpoint, "runtime-endpoint", o.RuntimeEndpoint, "socket of the container runtime, for --pods=runtime")
	fs.StringVar(&o.BootIDFile, "boot-id-file", o.BootIDFile, "file with the boot ID of the node, the same as the plugin reads")
	fs.DurationVar(&o.MaxReservation, "max-reservation", o.MaxReservation, "longest reservation that a pod can ask for; with --network=own or adopt it is written as ipam.maxReservation; in another network it holds only until the first pod has started there")
	fs.IntVar(&o.MaxReservedPercent, "max-reserved-percent", o.MaxReservedPercent, "percentage of the network's addresses that reservations may hold; with --network=own or adopt it is written as ipam.maxReservedPercent")
	fs.StringVar(&o.Address, "address", o.Address, "address on which /healthz, /readyz and /metrics are served; 0 or empty: serve none")
	fs.StringVar(&o.MetricsAddress, "metrics-address", o.MetricsAddress, "address on which /metrics is served instead, alone; 0: serve none; empty: serve it on --address")
	fs.BoolVar(&o.Wait, "wait", o.Wait, "with the command uninstall: try until no pod needs the plugin, then stay; /readyz on --address answers ok from then on")
	for _, name := range []string{"plugin", "boot-id-file"} { // the image and the manifests fix these
		_ = fs.MarkHidden(name) // it is defined above
	}
}

// validate returns an error for every option with an unusable value.
func (o *options) validate() error {
	var errs []error
	if o.Node == "" {
		errs = append(errs, errors.New("--node-name: empty, and NODE_NAME is not set"))
	}
	if !slices.Contains([]string{"none", "own", "adopt", "flannel", "shared"}, o.Network) {
		errs = append(errs, fmt.Errorf("--network: %q is none of none, own, adopt, flannel, shared", o.Network))
	}
	for _, d := range []struct{ flag, value string }{
		{"cni-bin-dir", o.BinDir}, {"cni-conf-dir", o.ConfDir}, {"state-dir", o.StateDir}, {"netns-dir", o.NetNSDir}, {"cni-results-dir", o.ResultsDir}, {"boot-id-file", o.BootIDFile},
	} {
		if d.value == "" {
			errs = append(errs, fmt.Errorf("--%s: must not be empty", d.flag))
		}
	}
	if !slices.Contains([]string{"auto", "kubelet", "runtime", "api"}, o.Pods) {
		errs = append(errs, fmt.Errorf("--pods: %q is none of auto, kubelet, runtime, api", o.Pods))
	}
	for flag, value := range map[string]string{"kubelet-pods-socket": o.KubeletSocket, "runtime-endpoint": o.RuntimeEndpoint} {
		if _, err := pods.SocketPath(value); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
		}
	}
	if o.AuditPeriod < 10*time.Second {
		errs = append(errs, fmt.Errorf("--audit-period: %s is less than 10 seconds", o.AuditPeriod))
	}
	if o.MaxReservation < time.Minute {
		errs = append(errs, fmt.Errorf("--max-reservation: %s is less than a minute", o.MaxReservation))
	}
	if o.MaxReservedPercent < 0 || o.MaxReservedPercent > 100 {
		errs = append(errs, fmt.Errorf("--max-reserved-percent: %d is not a percentage from 0 to 100", o.MaxReservedPercent))
	}
	return errors.Join(errs...)
}
