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
		"a namespace is needed":                  {func(o *Options) { o.Namespace = "" }, false},
		"a certificate that is given":            {func(o *Options) { o.Certificate = "given" }, true},
		"a certificate of some other kind":       {func(o *Options) { o.Certificate = "bought" }, false},
		"a port has 16 bits":                     {func(o *Options) { o.WebhookPort = 70000 }, false},
		"a maximum below the unit says nothing":  {func(o *Options) { o.MaxReservation = time.Second }, false},
		"a maximum of the unit is the least one": {func(o *Options) { o.MaxReservation = time.Minute }, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := Default()
			tc.change(&o)
			if err := o.Validate(); (err == nil) != tc.wantOK {
				t.Errorf("Validate: %v", err)
			}
		})
	}
}
