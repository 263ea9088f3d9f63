package loan_test

import (
	"maps"
	"testing"

	"github.com/limpet-io/limpet/internal/loan"
)

// TestFlannel reads the annotations of Nodes.
func TestFlannel(t *testing.T) {
	with := func(backend string, change func(map[string]string)) map[string]string {
		all := maps.Clone(loan.FlannelAnnotations(backend))
		change(all)
		return all
	}
	same := func(map[string]string) {}
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"host-gw":            {with("host-gw", same), "host-gw"},
		"vxlan":              {with("vxlan", same), "vxlan"},
		"wireguard":          {with("wireguard", same), ""},
		"subnets of etcd":    {with("vxlan", func(a map[string]string) { delete(a, "flannel.alpha.coreos.com/kube-subnet-manager") }), ""},
		"another network":    {nil, ""},
		"no backend":         {with("", same), ""},
		"backend in capital": {with("VXLAN", same), ""},
	} {
		if got := loan.Flannel(tc.annotations); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
