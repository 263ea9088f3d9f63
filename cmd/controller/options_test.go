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
		"a client's name needs an authority":     {func(o *Options) { o.ClientNames = []string{"kube-apiserver"} }, false},
		"a client's name and its authority":      {func(o *Options) { o.ClientNames, o.ClientCA = []string{"kube-apiserver"}, "/ca.crt" }, true},
		"networks of both families":              {func(o *Options) { o.ClientNetworks = []string{"10.0.0.7/24", "fd00::/64"} }, true},
		"an address is no network":               {func(o *Options) { o.ClientNetworks = []string{"10.0.0.7"} }, false},
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

// Without a setting, pods may not ask the webhooks. An administrator who says who may is taken at the word.
func TestPodsMayNotAskByDefault(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Options)
		want   bool
	}{
		"default":       {func(*Options) {}, true},
		"all networks":  {func(o *Options) { o.ClientNetworks = []string{"0.0.0.0/0", "::/0"} }, false},
		"a certificate": {func(o *Options) { o.ClientCA = "/ca.crt" }, false},
	} {
		o := Default()
		if tc.change(&o); o.refusesPods() != tc.want {
			t.Errorf("%s: refuses pods: %t", name, !tc.want)
		}
	}
}
