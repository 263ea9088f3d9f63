package show_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/agent/show"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// terminate begins to delete a namespace, and deletes its IPReservations as the namespace controller does,
// which the test API server does not have.
func terminate(t *testing.T, name string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := env.Client.Delete(t.Context(), ns)
	if err := errors.Join(err, env.Client.DeleteAllOf(t.Context(), &v1alpha1.IPReservation{}, client.InNamespace(name))); err != nil {
		t.Fatal(err)
	}
}

// finish ends the deletion of a namespace.
func finish(t *testing.T, name string) {
	t.Helper()
	ns := &corev1.Namespace{}
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKey{Name: name}, ns); err != nil {
			return client.IgnoreNotFound(err)
		}
		ns.Spec.Finalizers = nil
		return client.IgnoreNotFound(env.Client.SubResource("finalize").Update(t.Context(), ns))
	})
}

// TestANamespaceMadeAnewShowsItsObjects deletes a namespace with ten pods on the node, of which some ended
// long before, and makes it again. Neither is an error, and all objects are shown as soon as it is there.
func TestANamespaceMadeAnewShowsItsObjects(t *testing.T) {
	ns, b := env.Namespace(t), newBed(t, "again", show.Pace{})
	want := map[string]v1alpha1.IPState{}
	for i := range 5 {
		b.reserve(ns, fmt.Sprint("early-", i), time.Hour)
		b.attach(ns, fmt.Sprint("web-", i))
		want[fmt.Sprintf("%s early-%d", ns, i)], want[fmt.Sprintf("%s web-%d", ns, i)] = v1alpha1.IPReserved, v1alpha1.IPReserved
	}
	if err := b.show(t); err != nil {
		t.Fatal(err)
	}
	terminate(t, ns)
	b.end()
	if err := b.show(t); err != nil {
		t.Errorf("a namespace that is terminating: %v", err)
	}
	b.passTime(t, time.Minute)
	finish(t, ns)
	b.passTime(t, time.Minute)
	if err := b.show(t); err != nil {
		t.Errorf("a namespace that is gone: %v", err)
	}
	b.apiShows(t, map[string]v1alpha1.IPState{})
	if since, gone := b.Gone()[ns]; !gone || b.clock.Since(since) < time.Minute {
		t.Errorf("the namespace is gone since %s, want some minutes", since)
	}
	env.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	b.apiShows(t, want) // without a step of the clock
	if _, gone := b.Gone()[ns]; gone {
		t.Error("the namespace still counts as gone")
	}
}

// TestANamespaceWithReservationsOnlyIsFoundGone deletes a namespace of whose pods none is left on the node, so
// that no write tells of the loss.
func TestANamespaceWithReservationsOnlyIsFoundGone(t *testing.T) {
	ns, b := env.Namespace(t), newBed(t, "found-gone", show.Pace{})
	b.reserve(ns, "web-0", time.Hour)
	if err := b.show(t); err != nil {
		t.Fatal(err)
	}
	terminate(t, ns)
	finish(t, ns)
	b.passTime(t, 10*time.Second)
	testenv.Eventually(t, func() error {
		if _, gone := b.Gone()[ns]; !gone {
			return errors.New("the namespace does not count as gone")
		}
		return nil
	})
	env.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	b.apiShows(t, map[string]v1alpha1.IPState{ns + " web-0": v1alpha1.IPReserved})
}

// TestANamespaceMadeAnewUnnoticedShowsItsObjects makes a namespace again at once. All pods of the node ended
// before, so that no write tells of the loss.
func TestANamespaceMadeAnewUnnoticedShowsItsObjects(t *testing.T) {
	ns, b := env.Namespace(t), newBed(t, "unnoticed", show.Pace{})
	b.reserve(ns, "web-0", time.Hour)
	if err := b.show(t); err != nil {
		t.Fatal(err)
	}
	want := map[string]v1alpha1.IPState{ns + " web-0": v1alpha1.IPReserved}
	b.apiShows(t, want)
	terminate(t, ns)
	finish(t, ns)
	made := time.Now()
	testenv.Eventually(t, func() error { // the times of creation have full seconds
		if time.Now().Unix() == made.Unix() {
			return errors.New("the same second")
		}
		return nil
	})
	env.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}})
	b.passTime(t, 10*time.Second)
	b.apiShows(t, want)
}

// TestManyLostNamespacesCostFewWatches loses more namespaces than are watched. Those without a watch are probed
// slowly.
func TestManyLostNamespacesCostFewWatches(t *testing.T) {
	b := newBed(t, "many-lost", show.Pace{})
	for i := range 40 {
		for j := range 5 {
			b.reserve(fmt.Sprint("no-such-", i), fmt.Sprint("web-", j), 24*time.Hour)
		}
	}
	if err := b.show(t); err != nil {
		t.Error(err)
	}
	if got := b.since()["POST ipreservations"]; got != 40 {
		t.Errorf("%d attempts at first, want one in each namespace", got)
	}
	b.passTime(t, 10*time.Minute)
	b.asks(t, "WATCH namespaces")
	got := b.since()
	if got["WATCH namespaces"] > 64 || got["POST ipreservations"] > 24*20 {
		t.Errorf("requests in ten minutes: %v, want 16 watches and one attempt a minute in each other namespace", got)
	}
}
