package pin

import (
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// TargetOf returns the workload that a PersistentPodState is for.
func TargetOf(s *appsv1beta1.PersistentPodState) workload.Target {
	return workload.TargetOf(s.Spec.TargetReference)
}

// Choose returns the oldest of the PersistentPodStates with the same target, which is the
// one in force; nil when there is none. One that limpet.dev/keep asks for comes after the others.
func Choose(states []appsv1beta1.PersistentPodState) *appsv1beta1.PersistentPodState {
	var first *appsv1beta1.PersistentPodState
	for i := range states {
		if s := &states[i]; first == nil || older(s, first) {
			first = s
		}
	}
	return first
}

func older(a, b *appsv1beta1.PersistentPodState) bool {
	if yields(a) != yields(b) {
		return yields(b)
	}
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}
