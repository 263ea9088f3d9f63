package pin_test

import (
	"testing"

	"github.com/limpet-io/limpet/pkg/pin"
)

func TestUnstable(t *testing.T) {
	cases := map[string]struct {
		of   pin.Target
		want bool
	}{
		"a Job":                   {pin.Target{Group: "batch", Kind: "Job"}, true},
		"a Job of somebody else":  {pin.Target{Group: "batch.volcano.sh", Kind: "Job"}, false},
		"a ReplicaSet":            {pin.Target{Group: "apps", Kind: "ReplicaSet"}, true},
		"OpenKruise's DaemonSet":  {pin.Target{Group: "apps.kruise.io", Kind: "DaemonSet"}, false},
		"a static pod's node":     {pin.Target{Kind: "Node"}, true},
		"a ReplicationController": {pin.Target{Kind: "ReplicationController"}, true},
		"a StatefulSet":           {pin.Target{Group: "apps", Kind: "StatefulSet"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.of.Unstable(); got != tc.want {
				t.Errorf("Unstable: %v, want %v", got, tc.want)
			}
		})
	}
}
