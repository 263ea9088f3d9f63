package workload_test

import (
	"testing"

	"github.com/limpet-io/limpet/internal/platform/workload"
)

func TestUnstable(t *testing.T) {
	cases := map[string]struct {
		of   workload.Target
		want bool
	}{
		"a Job":                    {workload.Target{Group: "batch", Kind: "Job"}, true},
		"a Job of another project": {workload.Target{Group: "batch.volcano.sh", Kind: "Job"}, false},
		"a ReplicaSet":             {workload.Target{Group: "apps", Kind: "ReplicaSet"}, true},
		"OpenKruise's DaemonSet":   {workload.Target{Group: "apps.kruise.io", Kind: "DaemonSet"}, false},
		"a static pod's node":      {workload.Target{Kind: "Node"}, true},
		"a ReplicationController":  {workload.Target{Kind: "ReplicationController"}, true},
		"a StatefulSet":            {workload.Target{Group: "apps", Kind: "StatefulSet"}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.of.Unstable(); got != tc.want {
				t.Errorf("Unstable: %v, want %v", got, tc.want)
			}
		})
	}
}
