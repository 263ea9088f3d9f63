package show_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/agent/show"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestANodeWithoutChangesWritesNothing lets three hours pass on a node with a pod and reservations, which end
// during that time. A pod that comes back within 5 s costs one write, a slower one two, and none of the pool.
func TestANodeWithoutChangesWritesNothing(t *testing.T) {
	ns, b := env.Namespace(t), newBed(t, "at-rest", show.Pace{Counts: 15 * time.Second, Ends: 5 * time.Second})
	b.attach(ns, "web-0")
	b.reserve(ns, "web-1", 24*time.Hour)
	if err := b.show(t); err != nil {
		t.Fatal(err)
	}
	b.wants(t, "of a start", map[string]int{"GET ipreservations": 1, "GET nodeippools": 1, "POST ipreservations": 2, "POST nodeippools": 1})

	b.passTime(t, 10*time.Second)
	b.asks(t, "WATCH namespaces")
	b.asks(t, "WATCH ipreservations")
	b.wants(t, "after 5 s of a reservation", map[string]int{"WATCH namespaces": 1, "WATCH ipreservations": 1})
	b.passTime(t, 3*time.Hour)
	got := b.since()
	delete(got, "WATCH namespaces") // opened again every few minutes
	delete(got, "WATCH ipreservations")
	if lists := got["GET ipreservations"]; lists < 2 || lists > 4 || len(got) != 2 || got["GET nodeippools"] != lists {
		t.Errorf("requests of three hours: %v, want one list of each kind an hour", got)
	}

	for _, tc := range []struct {
		away   time.Duration
		writes int
	}{{4 * time.Second, 1}, {6 * time.Second, 2}, {4 * time.Second, 1}} {
		away, writes := tc.away, tc.writes
		b.end()
		if err := b.show(t); err != nil {
			t.Fatal(err)
		}
		b.passTimeBy(t, time.Second, away)
		b.network.Reservations = b.network.Reservations[:1]
		b.attach(ns, "web-0")
		b.network.Attachments[0].UID = "back-after-" + away.String()
		if err := b.show(t); err != nil { // before the clock goes on: a pass of its own may come first
			t.Fatal(err)
		}
		b.passTime(t, time.Minute)
		b.wants(t, "of a rebuild of "+away.String(), map[string]int{"PUT ipreservations": writes})
	}

	b.network.Attachments = nil
	b.passTime(t, time.Minute)
	b.wants(t, "of a pod that does not come back", map[string]int{"DELETE ipreservations": 1, "PUT nodeippools": 1})
}

// TestObjectsOfAnEarlierAgentAreRead begins with an object that shows the remaining time.
func TestObjectsOfAnEarlierAgentAreRead(t *testing.T) {
	ns, b := env.Namespace(t), newBed(t, "upgraded", show.Pace{})
	b.reserve(ns, "web-0", 10*time.Minute)
	until := metav1.NewTime(b.clock.Now().Add(10 * time.Minute))
	old := &v1alpha1.IPReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-0.eth0.net.upgraded", Labels: map[string]string{v1alpha1.LabelNode: "upgraded"}},
		Status: v1alpha1.IPReservationStatus{
			Node: "upgraded", Network: "net", Interface: "eth0", Pod: "web-0", PodUID: "u-web-0", IPs: "10.1.0.2", State: v1alpha1.IPReserved,
			RetainMinutes: 10, Until: &until, Left: "9m",
		},
	}
	env.Create(t, old)
	testenv.Eventually(t, func() error { // the loop reads what the API server has cached
		var list v1alpha1.IPReservationList
		if err := env.Client.List(t.Context(), &list, client.InNamespace(ns), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}); err != nil || len(list.Items) != 1 {
			return fmt.Errorf("%d objects: %w", len(list.Items), err)
		}
		return nil
	})
	if err := b.show(t); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(old), old); err != nil || old.Status.Left != "" {
		t.Errorf("left is %q, %v; want it removed", old.Status.Left, err)
	}
	if got := b.since()["PUT ipreservations"]; got != 1 {
		t.Errorf("%d updates, want one", got)
	}
	b.passTime(t, 5*time.Minute)
	if got := b.since()["PUT ipreservations"]; got != 0 {
		t.Errorf("%d updates later, want none", got)
	}
}
