package reconcile

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// WritesPerSecond is how many pods of a namespace are written in a second.
const WritesPerSecond = writesPerSecond

// Patch writes the cost of a pod as it was read.
func (r *Reconciler) Patch(ctx context.Context, pod *corev1.Pod, cost string) error {
	return r.patch(ctx, pod, cost)
}

// NewGrant returns the bound of writes of a namespace, by the second.
func NewGrant() func(namespace string, second int64) bool {
	m := &memory{}
	return func(namespace string, second int64) bool { return m.grant(namespace, time.Unix(second, 0)) }
}
