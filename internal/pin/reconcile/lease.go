package reconcile

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

// LeaseMonitor reports whether a node's kubelet still renews its lease. A missed renewal
// shows well before Kubernetes reports the node as NotReady.
type LeaseMonitor struct {
	// Live reads from the API server: leases change too often to be cached.
	Live  client.Reader
	Clock clock.PassiveClock

	mu sync.Mutex
	// renewals are the last known renewals, by node.
	renewals map[string]renewal
}

// renewal is what was read of a node's lease.
type renewal struct {
	// at is when the kubelet renewed the lease. The node's clock may be wrong; a later
	// renewal proves that the node is alive.
	at metav1.MicroTime
	// since is from when its age counts: when the node says, or when this renewal was first seen, whatever is earlier.
	since time.Time
	// late tells that the lease looked overdue.
	late bool
	// until is when the lease is read again at the latest, unless it is late.
	until time.Time
}

const (
	leaseMemory = 10 * time.Second // the longest time that a lease is not read again
	mostLeases  = 10_000           // names of nodes that are remembered
)

// Overdue reports whether a node has missed a renewal of its lease. A node without a lease
// has missed none. A renewal that is young enough is not read again, so that a burst of pods
// costs one request for each node.
func (m *LeaseMonitor) Overdue(ctx context.Context, node string) (bool, error) {
	if m.recent(node) {
		return false, nil
	}
	var lease coordinationv1.Lease
	err := m.Live.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node}, &lease)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read lease of node %s: %w", node, err)
	}
	return m.judge(node, lease.Spec), nil
}

// addRenewal adds when the API server last stored a renewal of a node's lease, by its own clock. A lease that is missing,
// or tells no time, adds nothing.
func (m *LeaseMonitor) addRenewal(ctx context.Context, node string, to map[string]time.Time) error {
	var lease coordinationv1.Lease
	if err := m.Live.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node}, &lease); err != nil {
		return client.IgnoreNotFound(err)
	}
	for _, write := range lease.ManagedFields {
		if write.Time != nil && write.Time.After(to[node]) {
			to[node] = write.Time.Time
		}
	}
	return nil
}

// recent reports whether the last known renewal of a node is young enough.
func (m *LeaseMonitor) recent(node string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	known, ok := m.renewals[node]
	return ok && !known.late && m.Clock.Now().Before(known.until)
}

// judge compares a lease with the clock, and with what was seen of it before: the clock may be ahead or behind.
func (m *LeaseMonitor) judge(node string, lease coordinationv1.LeaseSpec) (overdue bool) {
	if lease.RenewTime == nil || lease.LeaseDurationSeconds == nil {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, before := m.Clock.Now(), m.renewals[node]
	next := renewal{at: *lease.RenewTime, since: now, until: now.Add(leaseMemory)}
	switch {
	case before.at.Equal(lease.RenewTime):
		next.since = before.since
	case !before.late && lease.RenewTime.Time.Before(now):
		next.since = lease.RenewTime.Time
	}
	expires := next.since.Add(renewalGrace(lease))
	next.late = now.After(expires)
	if expires.Before(next.until) {
		next.until = expires
	}
	if m.renewals == nil || len(m.renewals) >= mostLeases {
		m.renewals = map[string]renewal{}
	}
	m.renewals[node] = next
	return next.late
}

// renewalGrace is the age from which a renewal is overdue. The kubelet renews its lease
// about four times within the lease's duration; three eighths allow for a little delay.
func renewalGrace(lease coordinationv1.LeaseSpec) time.Duration {
	return time.Duration(*lease.LeaseDurationSeconds) * time.Second * 3 / 8
}
