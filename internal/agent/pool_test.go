package agent_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// pool waits until check accepts the status of the node's pool.
func (n *node) pool(t *testing.T, check func(v1alpha1.NodeIPPoolStatus) error) (s v1alpha1.NodeIPPoolStatus) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var pools v1alpha1.NodeIPPoolList
		if err := env.Client.List(t.Context(), &pools, client.MatchingLabels{v1alpha1.LabelNode: n.Node}); err != nil {
			return err
		}
		if len(pools.Items) != 1 {
			return fmt.Errorf("%d pools", len(pools.Items))
		}
		s = pools.Items[0].Status
		return check(s)
	})
	return s
}

// TestPressureIsShown follows a pool whose share is used up and then free again, in the API
// and in the metrics.
func TestPressureIsShown(t *testing.T) {
	ns, n := env.Namespace(t), newNode(t, "pressure")
	registry := prometheus.NewRegistry()
	n.Registry = registry
	n.update(t, func(tx *persistence.Tx) error {
		return tx.SetLimits("net", reservation.Limits{Share: reservation.Share{Pods: 1}, MaxRetain: time.Hour})
	})
	n.reserve(t, ns, "web-0", 0, time.Hour)
	n.start(t)
	shareReached := func(want metav1.ConditionStatus, attached int64) func(v1alpha1.NodeIPPoolStatus) error {
		return func(s v1alpha1.NodeIPPoolStatus) error {
			c := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionShareReached)
			if c == nil || c.Status != want || s.Attached != attached {
				return fmt.Errorf("%d attached, condition %v; want %d, %s", s.Attached, c, attached, want)
			}
			return nil
		}
	}
	before := n.pool(t, shareReached(metav1.ConditionTrue, 0))

	n.attach(t, ns, "web-1", "u1", n.liveNetNS(), 0)
	later := n.pool(t, shareReached(metav1.ConditionTrue, 1))
	if diff := cmp.Diff(before.Conditions, later.Conditions); diff != "" {
		t.Errorf("conditions that stay the same (-before +later):\n%s", diff)
	}
	n.update(t, func(tx *persistence.Tx) error {
		a, _, err := tx.Attachment(reservation.AttachmentID{Network: "net", ContainerID: "c-web-1", IfName: "eth0"})
		if err != nil {
			return err
		}
		if _, err := lifecycle.End(tx, a, n.Now(), false); err != nil { // displaces the reservation of web-0
			return err
		}
		return tx.Reclaim(a.Owner)
	})
	n.pool(t, shareReached(metav1.ConditionFalse, 0))
	want := map[string]float64{
		"limpet_pool_share_pods net": 1, "limpet_reservations_gave_way_total net pod": 1, "limpet_reservations_gave_way_total net reservation": 1,
		"limpet_pool_refusals_total net pod": 0, "limpet_pool_refusals_total net reservation": 0,
	}
	if diff := cmp.Diff(want, metricValues(t, registry, want)); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

// metricValues returns the values of the metrics in of, by name and values of the labels.
func metricValues(t *testing.T, registry *prometheus.Registry, of map[string]float64) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetValue()
			}
			if _, wanted := of[name]; wanted {
				got[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return got
}
