package pin

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

// LeaseMonitor tells whether a node's kubelet still renews its lease. A missed renewal
// shows well before Kubernetes reports the node as NotReady.
type LeaseMonitor struct {
	// Live reads from the API server: leases change too often to be cached.
	Live  client.Reader
	Clock clock.PassiveClock

	mu sync.Mutex
	// late holds the renewal times of leases that looked overdue. The node's clock may be
	// wrong; a later renewal proves that the node is alive.
	late map[string]metav1.MicroTime
}

// Overdue tells whether a node has missed a renewal of its lease. A node without a lease
// has missed none.
func (m *LeaseMonitor) Overdue(ctx context.Context, node string) (bool, error) {
	var lease coordinationv1.Lease
	err := m.Live.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node}, &lease)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read lease of node %s: %w", node, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	before, known := m.late[node]
	if !overdue(lease.Spec, m.Clock.Now()) || (known && !before.Equal(lease.Spec.RenewTime)) {
		delete(m.late, node)
		return false, nil
	}
	if m.late == nil {
		m.late = map[string]metav1.MicroTime{}
	}
	m.late[node] = *lease.Spec.RenewTime
	return true, nil
}

// overdue tells whether a renewal was missed. The kubelet renews its lease about four
// times within the lease's duration; three eighths allow for a little delay.
func overdue(lease coordinationv1.LeaseSpec, now time.Time) bool {
	if lease.RenewTime == nil || lease.LeaseDurationSeconds == nil {
		return false
	}
	duration := time.Duration(*lease.LeaseDurationSeconds) * time.Second
	return now.Sub(lease.RenewTime.Time) > duration*3/8
}
