package controller

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Silence finds out whether a node's kubelet still renews its lease. That is known a
// good while before Kubernetes calls the node NotReady.
type Silence struct {
	// Live reads from the API server: leases change too often to be cached.
	Live  client.Reader
	Clock clock.PassiveClock

	mu sync.Mutex
	// late are the renewals of the leases that looked overdue. The node's clock may be
	// wrong; a renewal that follows proves that the node is alive.
	late map[string]metav1.MicroTime
}

// Of reports whether a node is silent. A node without a lease is not.
func (s *Silence) Of(ctx context.Context, node string) (bool, error) {
	var lease coordinationv1.Lease
	err := s.Live.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node}, &lease)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read lease of node %s: %w", node, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	before, listening := s.late[node]
	if !overdue(lease.Spec, s.Clock.Now()) || (listening && !before.Equal(lease.Spec.RenewTime)) {
		delete(s.late, node)
		return false, nil
	}
	if s.late == nil {
		s.late = map[string]metav1.MicroTime{}
	}
	s.late[node] = *lease.Spec.RenewTime
	return true, nil
}

// overdue tells that a renewal was missed: the kubelet renews four times in the duration
// of its lease, give or take a little.
func overdue(lease coordinationv1.LeaseSpec, now time.Time) bool {
	if lease.RenewTime == nil || lease.LeaseDurationSeconds == nil {
		return false
	}
	duration := time.Duration(*lease.LeaseDurationSeconds) * time.Second
	return now.Sub(lease.RenewTime.Time) > duration*3/8
}
