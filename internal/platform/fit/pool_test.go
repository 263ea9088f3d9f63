package fit_test

import (
	"testing"

	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// pool is a pool with some range sets.
func pool(total, free int64, ranges ...string) v1alpha1.NodeIPPool {
	var p v1alpha1.NodeIPPool
	p.Status.Total, p.Status.Free, p.Status.Ranges = total, free, ranges
	return p
}

// TestExhausted decides by the pools of the pod's own addresses, or else by all.
func TestExhausted(t *testing.T) {
	full := pool(9, 0, "10.0.0.2-10.0.0.10,10.0.2.2-10.0.2.9")
	free := pool(9, 1, "10.0.1.2-10.0.1.10", "fd00::2-fd00::9")
	for name, tc := range map[string]struct {
		pools []v1alpha1.NodeIPPool
		ips   string
		want  bool
	}{
		"no pool is known":                    {nil, "10.0.0.2", false},
		"the pod's own pool is full":          {[]v1alpha1.NodeIPPool{full, free}, "10.0.0.10", true},
		"its second range is full":            {[]v1alpha1.NodeIPPool{full, free}, "10.0.2.5", true},
		"the pod's own pool has an address":   {[]v1alpha1.NodeIPPool{full, free}, "10.0.1.2", false},
		"one of two own pools is full":        {[]v1alpha1.NodeIPPool{full, free}, "10.0.0.3,fd00::3", true},
		"an unknown address, one pool free":   {[]v1alpha1.NodeIPPool{full, free}, "10.9.9.9", false},
		"an unknown address, all pools full":  {[]v1alpha1.NodeIPPool{full}, "10.9.9.9", true},
		"no address, all pools full":          {[]v1alpha1.NodeIPPool{full}, "", true},
		"a pool whose size is not yet known":  {[]v1alpha1.NodeIPPool{pool(0, 0, "10.0.0.2-10.0.0.10")}, "10.0.0.2", false},
		"an address of the other family":      {[]v1alpha1.NodeIPPool{pool(9, 0, "::-ffff::"), free}, "10.0.1.3", false},
		"ranges and addresses that are wrong": {[]v1alpha1.NodeIPPool{pool(9, 0, "10.0.0.2", "x-y"), free}, "z,10.0.0.2", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fit.Exhausted(tc.pools, tc.ips); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
