package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
)

func TestOptionsValidate(t *testing.T) {
	cases := map[string]struct {
		change func(*options)
		wantOK bool
	}{
		"the defaults":                         {func(*options) {}, true},
		"own network mode":                     {func(o *options) { o.Network = "own" }, true},
		"an unknown network mode":              {func(o *options) { o.Network = "yes" }, false},
		"no node name":                         {func(o *options) { o.Node = "" }, false},
		"no plugin to install":                 {func(o *options) { o.PluginFile = "" }, true},
		"an empty directory":                   {func(o *options) { o.StateDir = "" }, false},
		"a longest reservation below a minute": {func(o *options) { o.MaxReservation = time.Second }, false},
		"more than 100 percent":                {func(o *options) { o.MaxReservedPercent = 101 }, false},
		"0 percent":                            {func(o *options) { o.MaxReservedPercent = 0 }, true},
		"an audit each second":                 {func(o *options) { o.AuditPeriod = time.Second }, false},
		"an audit each 10 seconds":             {func(o *options) { o.AuditPeriod = 10 * time.Second }, true},
		"an unknown source of pods":            {func(o *options) { o.Pods = "etcd" }, false},
		"an endpoint of the runtime":           {func(o *options) { o.Pods, o.RuntimeEndpoint = "runtime", "unix:///run/crio/crio.sock" }, true},
		"a runtime on the network":             {func(o *options) { o.RuntimeEndpoint = "tcp://10.0.0.1:1" }, false},
		"a longest reservation of a minute":    {func(o *options) { o.MaxReservation = time.Minute }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := Default()
			o.Node = "n1"
			tc.change(&o)
			if err := o.validate(); (err == nil) != tc.wantOK {
				t.Errorf("Validate: %v", err)
			}
		})
	}
}

// TestPodNetworks reads the networks of pods from flags.
func TestPodNetworks(t *testing.T) {
	for name, tc := range map[string]struct {
		args   []string
		want   string
		wantOK bool
	}{
		"none":        {want: "[]", wantOK: true},
		"two":         {args: []string{"--pod-networks=10.244.0.0/16,fd00:10:244::/48"}, want: "[10.244.0.0/16 fd00:10:244::/48]", wantOK: true},
		"two flags":   {args: []string{"--pod-networks=10.244.0.1/16", "--pod-networks=10.1.0.0/16"}, want: "[10.244.0.0/16 10.1.0.0/16]", wantOK: true},
		"no network":  {args: []string{"--pod-networks=10.244.0.0"}, want: "[]"},
		"half a list": {args: []string{"--pod-networks=10.244.0.0/16,"}, want: "[10.244.0.0/16]"},
	} {
		t.Run(name, func(t *testing.T) {
			o, fs := Default(), pflag.NewFlagSet("limpet-agent", pflag.ContinueOnError)
			o.addFlags(fs)
			if err := fs.Parse(tc.args); (err == nil) != tc.wantOK || fmt.Sprint(o.PodNetworks) != tc.want {
				t.Errorf("networks %v, %v; want %s", o.PodNetworks, err, tc.want)
			}
		})
	}
}

// TestUnknownCommand checks that a misspelled command does not start an agent.
func TestUnknownCommand(t *testing.T) {
	o := Default()
	o.Node = "n1"
	err := start(t.Context(), "uninstal", o, logr.Discard())
	if err == nil || !strings.Contains(err.Error(), "uninstal") {
		t.Errorf("start: %v, want an error that names the command", err)
	}
}
