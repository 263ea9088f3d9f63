package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestOptionsValidate(t *testing.T) {
	cases := map[string]struct {
		change func(*options)
		wantOK bool
	}{
		"the defaults can be used":               {func(*options) {}, true},
		"a namespace is needed":                  {func(o *options) { o.Namespace = "" }, false},
		"a certificate that is given":            {func(o *options) { o.Certificate = "given" }, true},
		"a certificate of some other kind":       {func(o *options) { o.Certificate = "bought" }, false},
		"a port has 16 bits":                     {func(o *options) { o.WebhookPort = 70000 }, false},
		"a maximum below the unit says nothing":  {func(o *options) { o.MaxReservation = time.Second }, false},
		"a maximum of the unit is the least one": {func(o *options) { o.MaxReservation = time.Minute }, true},
		"a client's name needs an authority":     {func(o *options) { o.ClientNames = []string{"kube-apiserver"} }, false},
		"a client's name and its authority":      {func(o *options) { o.ClientNames, o.ClientCA = []string{"kube-apiserver"}, "/ca.crt" }, true},
		"networks of both families":              {func(o *options) { o.ClientNetworks = []string{"10.0.0.7/24", "fd00::/64"} }, true},
		"an address is no network":               {func(o *options) { o.ClientNetworks = []string{"10.0.0.7"} }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o := Default()
			tc.change(&o)
			if err := o.validate(); (err == nil) != tc.wantOK {
				t.Errorf("Validate: %v", err)
			}
		})
	}
}

// Without a setting, pods may not ask the webhooks. An administrator who says who may is taken at the word.
func TestPodsMayNotAskByDefault(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*options)
		want   bool
	}{
		"default":       {func(*options) {}, true},
		"all networks":  {func(o *options) { o.ClientNetworks = []string{"0.0.0.0/0", "::/0"} }, false},
		"a certificate": {func(o *options) { o.ClientCA = "/ca.crt" }, false},
	} {
		o := Default()
		if tc.change(&o); o.refusesPods() != tc.want {
			t.Errorf("%s: refuses pods: %t", name, !tc.want)
		}
	}
}

func TestAKindThatIsNotServedNamesTheRemedy(t *testing.T) {
	unserved := fmt.Errorf("make manager: %w", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "limpet.dev", Kind: "BorrowedAddress"}})
	if err := remedied(unserved); !strings.Contains(err.Error(), "deploy/crds") || !errors.Is(err, unserved) {
		t.Errorf("error %v", err)
	}
	if other := errors.New("other"); remedied(other).Error() != "other" {
		t.Error("another error is changed")
	}
}
