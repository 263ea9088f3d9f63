package show_test

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/agent/show"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestALoopThatEndsShowsTheEndOfAPod ends the loop at once after a pod, before the end of the pod would be written.
func TestALoopThatEndsShowsTheEndOfAPod(t *testing.T) {
	ns, b := env.Namespace(t), newBed(t, "ending", show.Pace{Counts: time.Hour, Ends: time.Hour, Last: time.Minute})
	b.attach(ns, "web-0")
	if err := b.show(t); err != nil {
		t.Fatal(err)
	}
	b.since()
	b.end()
	if err := b.show(t); err != nil {
		t.Fatal(err)
	}
	b.wants(t, "of the end of a pod", map[string]int{})
	b.stop()
	b.apiShows(t, map[string]v1alpha1.IPState{ns + " web-0": v1alpha1.IPReserved})
	b.wants(t, "of the end of the loop", map[string]int{"PUT ipreservations": 1, "PUT nodeippools": 1})
}

// TestALoopThatEndsReadsWhatOthersChanged ends the loop when the server has another version of an object than the loop knows,
// as it has when the answer to the last write was lost.
func TestALoopThatEndsReadsWhatOthersChanged(t *testing.T) {
	ns, b := env.Namespace(t), newBed(t, "outdated", show.Pace{Counts: time.Hour, Ends: time.Hour, Last: time.Minute})
	b.attach(ns, "web-0")
	if err := b.show(t); err != nil {
		t.Fatal(err)
	}
	var r v1alpha1.IPReservation
	env.Read(t, client.ObjectKey{Namespace: ns, Name: "web-0.eth0.net.outdated"}, &r)
	r.Annotations = map[string]string{"example.com/by": "another"}
	if err := env.Client.Update(t.Context(), &r); err != nil {
		t.Fatal(err)
	}
	b.end()
	if err := b.show(t); err != nil {
		t.Fatal(err)
	}
	b.stop()
	b.apiShows(t, map[string]v1alpha1.IPState{ns + " web-0": v1alpha1.IPReserved})
}

// TestTheFirstPassShowsEarlierEnds kills a loop after the end of a pod. The next loop of the node does not wait.
func TestTheFirstPassShowsEarlierEnds(t *testing.T) {
	ns := env.Namespace(t)
	pace := show.Pace{Counts: time.Hour, Ends: time.Hour}
	killed := newBed(t, "killed", pace)
	killed.attach(ns, "web-0")
	if err := killed.show(t); err != nil {
		t.Fatal(err)
	}
	killed.stop()
	b := newBed(t, "killed", pace)
	b.network = killed.network
	b.end()
	if err := b.show(t); err != nil {
		t.Fatal(err)
	}
	b.apiShows(t, map[string]v1alpha1.IPState{ns + " web-0": v1alpha1.IPReserved})
}
