package bed

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// An agent that is ready and has the former template is not what a test waits for.
func TestAgentsOfAFormerTemplateAreNotReady(t *testing.T) {
	tests := map[string]struct {
		status appsv1.DaemonSetStatus
		want   bool
	}{
		"done":                            {appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 3, UpdatedNumberScheduled: 3, NumberReady: 3}, true},
		"the rollout has not begun":       {appsv1.DaemonSetStatus{ObservedGeneration: 1, DesiredNumberScheduled: 3, UpdatedNumberScheduled: 3, NumberReady: 3}, false},
		"an agent has the former version": {appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 3, UpdatedNumberScheduled: 2, NumberReady: 3}, false},
		"an agent is not ready":           {appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 3, UpdatedNumberScheduled: 3, NumberReady: 2}, false},
		"a node has no agent":             {appsv1.DaemonSetStatus{ObservedGeneration: 2, DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberReady: 2}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.DaemonSet{Status: tc.status}
			d.Generation = 2
			if got := agentsReady(d, 3); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}
