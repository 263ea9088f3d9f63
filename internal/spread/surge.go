package spread

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Surges reports whether a rollout of a Deployment deletes no pod before its successor is Ready. Where
// the nodes of a subset are full, the rollout waits for room that its old pods keep.
func Surges(d *appsv1.Deployment) bool {
	rolling := d.Spec.Strategy.RollingUpdate
	if rolling == nil {
		return false
	}
	replicas := int(ptr.Deref(d.Spec.Replicas, 1))
	away, err := intstr.GetScaledValueFromIntOrPercent(rolling.MaxUnavailable, replicas, false)
	more, moreErr := intstr.GetScaledValueFromIntOrPercent(rolling.MaxSurge, replicas, true)
	return err == nil && moreErr == nil && away <= 0 && more > 0 // of two zeros, Kubernetes makes one pod unavailable
}
