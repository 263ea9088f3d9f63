package main

import (
	"testing"
	"time"
)

func TestOptionsValidate(t *testing.T) {
	cases := map[string]struct {
		change func(*Options)
		wantOK bool
	}{
		"the defaults can be used":               {func(*Options) {}, true},
		"being the network is for asking":        {func(o *Options) { o.Network = "own" }, true},
		"there are two modes":                    {func(o *Options) { o.Network = "yes" }, false},
		"a node has a name":                      {func(o *Options) { o.Node = "" }, false},
		"the plugin need not be installed":       {func(o *Options) { o.PluginFile = "" }, true},
		"a directory has a name":                 {func(o *Options) { o.StateDir = "" }, false},
		"a maximum below the unit says nothing":  {func(o *Options) { o.MaxReservation = time.Second }, false},
		"more than all cannot be reserved":       {func(o *Options) { o.MaxReservedPercent = 101 }, false},
		"none can be":                            {func(o *Options) { o.MaxReservedPercent = 0 }, true},
		"a maximum of the unit is the least one": {func(o *Options) { o.MaxReservation = time.Minute }, true},
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
