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
	away, err := intstr.GetScaledValueFromIntOrPercent(rolling.MaxUnavailable, int(ptr.Deref(d.Spec.Replicas, 1)), false)
	return err == nil && away <= 0
}
