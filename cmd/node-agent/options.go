package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Options are the agent's flags.
type Options struct {
	Node               string
	Network            string
	PluginFile         string
	BinDir             string
	ConfDir            string
	StateDir           string
	NetNSDir           string
	BootIDFile         string
	MaxReservation     time.Duration
	MaxReservedPercent int
	Address            string
}

// Default returns the options of an agent that runs by the shipped manifests.
func Default() Options {
	return Options{
		Network: "none", PluginFile: "/limpet-ipam", BinDir: "/opt/cni/bin", ConfDir: "/etc/cni/net.d",
		StateDir: persistence.DefaultDir, NetNSDir: "/var/run/netns", BootIDFile: machine.BootIDPath, MaxReservation: reservation.DefaultMaxRetain,
		MaxReservedPercent: reservation.DefaultSharePercent, Address: ":9414",
	}
}

// AddFlags registers the options.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Node, "node-name", o.Node, "name of the node this agent runs on; taken from NODE_NAME when empty")
	fs.StringVar(&o.Network, "network", o.Network, "none: leave network configuration and routes alone; own: be the node's pod network")
	fs.StringVar(&o.PluginFile, "plugin", o.PluginFile, "plugin binary to install; empty to install none")
	fs.StringVar(&o.BinDir, "cni-bin-dir", o.BinDir, "directory where the runtime looks for plugins")
	fs.StringVar(&o.ConfDir, "cni-conf-dir", o.ConfDir, "directory where the runtime looks for network configurations")
	fs.StringVar(&o.StateDir, "state-dir", o.StateDir, "ipam.dataDir of the networks on this node")
	fs.StringVar(&o.NetNSDir, "netns-dir", o.NetNSDir, "directory where the runtime binds the pods' network namespaces; those elsewhere are never taken for gone")
	fs.StringVar(&o.BootIDFile, "boot-id-file", o.BootIDFile, "file with the node's boot ID, the one that the plugin reads")
	fs.DurationVar(&o.MaxReservation, "max-reservation", o.MaxReservation, "longest reservation that a pod's annotation can ask for: ipam.maxReservation of the own network, and of others until a pod was started in them")
	fs.IntVar(&o.MaxReservedPercent, "max-reserved-percent", o.MaxReservedPercent, "how much of the own network's pool reservations may hold: its ipam.maxReservedPercent")
	fs.StringVar(&o.Address, "address", o.Address, "address that /healthz, /readyz and /metrics are served on; empty for none")
}

// Validate names every option that cannot work.
func (o *Options) Validate() error {
	var errs []error
	if o.Node == "" {
		errs = append(errs, errors.New("--node-name: empty, and NODE_NAME is not set"))
	}
	if o.Network != "none" && o.Network != "own" {
		errs = append(errs, fmt.Errorf("--network: %q is neither \"none\" nor \"own\"", o.Network))
	}
	for _, d := range []struct{ flag, value string }{
		{"cni-bin-dir", o.BinDir}, {"cni-conf-dir", o.ConfDir}, {"state-dir", o.StateDir}, {"netns-dir", o.NetNSDir}, {"boot-id-file", o.BootIDFile},
	} {
		if d.value == "" {
			errs = append(errs, fmt.Errorf("--%s: must not be empty", d.flag))
		}
	}
	if o.MaxReservation < time.Minute {
		errs = append(errs, fmt.Errorf("--max-reservation: %s is less than a minute", o.MaxReservation))
	}
	if o.MaxReservedPercent < 0 || o.MaxReservedPercent > 100 {
		errs = append(errs, fmt.Errorf("--max-reserved-percent: %d is not a percentage from 0 to 100", o.MaxReservedPercent))
	}
	return errors.Join(errs...)
}
