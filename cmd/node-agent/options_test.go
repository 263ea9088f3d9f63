package main

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
)

func TestOptionsValidate(t *testing.T) {
	cases := map[string]struct {
		change func(*Options)
		wantOK bool
	}{
		"the defaults":                         {func(*Options) {}, true},
		"own network mode":                     {func(o *Options) { o.Network = "own" }, true},
		"an unknown network mode":              {func(o *Options) { o.Network = "yes" }, false},
		"no node name":                         {func(o *Options) { o.Node = "" }, false},
		"no plugin to install":                 {func(o *Options) { o.PluginFile = "" }, true},
		"an empty directory":                   {func(o *Options) { o.StateDir = "" }, false},
		"a longest reservation below a minute": {func(o *Options) { o.MaxReservation = time.Second }, false},
		"more than 100 percent":                {func(o *Options) { o.MaxReservedPercent = 101 }, false},
		"0 percent":                            {func(o *Options) { o.MaxReservedPercent = 0 }, true},
		"an audit each second":                 {func(o *Options) { o.AuditPeriod = time.Second }, false},
		"an audit each 10 seconds":             {func(o *Options) { o.AuditPeriod = 10 * time.Second }, true},
		"an unknown source of pods":            {func(o *Options) { o.Pods = "etcd" }, false},
		"an endpoint of the runtime":           {func(o *Options) { o.Pods, o.RuntimeEndpoint = "runtime", "unix:///run/crio/crio.sock" }, true},
		"a runtime on the network":             {func(o *Options) { o.RuntimeEndpoint = "tcp://10.0.0.1:1" }, false},
		"a longest reservation of a minute":    {func(o *Options) { o.MaxReservation = time.Minute }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := Default()
			o.Node = "n1"
			tc.change(&o)
			if err := o.Validate(); (err == nil) != tc.wantOK {
				t.Errorf("Validate: %v", err)
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
