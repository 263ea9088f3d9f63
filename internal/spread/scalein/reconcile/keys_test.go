package reconcile

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// The first key that is not the host makes the domains, and the next other key the hosts.
func TestKeysOf(t *testing.T) {
	const zone, host, rack = corev1.LabelTopologyZone, corev1.LabelHostname, "example.com/rack"
	for name, tc := range map[string]struct {
		keys []string
		want topology
	}{
		"none":                      {nil, topology{host, host}},
		"hosts alone":               {[]string{host}, topology{host, host}},
		"a zone":                    {[]string{zone}, topology{zone, host}},
		"hosts, then a zone":        {[]string{host, zone}, topology{zone, host}},
		"a zone, then racks":        {[]string{zone, rack}, topology{zone, rack}},
		"two constraints of a zone": {[]string{zone, zone}, topology{zone, host}},
		"the second key counts":     {[]string{zone, host, rack}, topology{zone, host}},
	} {
		var set appsv1.ReplicaSet
		for _, key := range tc.keys {
			set.Spec.Template.Spec.TopologySpreadConstraints = append(set.Spec.Template.Spec.TopologySpreadConstraints,
				corev1.TopologySpreadConstraint{TopologyKey: key})
		}
		if got := keysOf(&set); got != tc.want {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}
