package show_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/agent/show"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestMarksAreSeen marks one of two reservations, and removes the mark again. A node without reservations has no watch
// and no marks.
func TestMarksAreSeen(t *testing.T) {
	ns, b := env.Namespace(t), newBed(t, "marks", show.Pace{})
	b.attach(ns, "web-9")
	b.reserve(ns, "web-0", time.Hour)
	b.reserve(ns, "web-1", 2*time.Hour)
	if err := b.show(t); err != nil {
		t.Fatal(err)
	}
	b.wants(t, "of young reservations", map[string]int{"GET ipreservations": 1, "GET nodeippools": 1, "POST ipreservations": 3, "POST nodeippools": 1})
	label := func(pod, value string) { t.Helper(); label(t, ns, pod, value) }
	until := func(pod int) string { return statusOf(b, pod).Releases() }
	marked := func(want int) {
		t.Helper()
		testenv.Eventually(t, func() error {
			if got := b.Marks(); len(got) != want || want == 1 && got[0].Owner.Pod != "web-0" {
				return fmt.Errorf("marks %+v, want %d", got, want)
			}
			return nil
		})
	}
	label("web-0", until(0)) // before the watch begins
	b.passTime(t, 10*time.Second)
	marked(1)
	label("web-1", until(0)) // the end of the other one
	label("web-9", until(0)) // a pod that runs
	label("web-0", "")
	marked(0)
	label("web-0", until(0))
	marked(1)
	b.network.Reservations = nil
	b.passTime(t, 5*time.Second)
	marked(0)
}

// TestARefusedWatchIsTold takes from an agent the right to watch, as a role of an earlier version does. The log tells it
// once, however long it lasts.
func TestARefusedWatchIsTold(t *testing.T) {
	ns, b := env.Namespace(t), newBed(t, "without-right", show.Pace{})
	var refused atomic.Int32
	b.answers(func(r *http.Request) *http.Response {
		if r.URL.Query().Get("watch") == "" || !strings.Contains(r.URL.Path, "ipreservations") {
			return nil
		}
		refused.Add(1)
		return forbidden(r)
	})
	b.reserve(ns, "web-0", 24*time.Hour)
	testenv.Eventually(t, func() error {
		b.passTime(t, 5*time.Second)
		if n := refused.Load(); n < 10 {
			return fmt.Errorf("%d watches were refused", n)
		}
		return nil
	})
	if told := b.loggedOf("users give up"); len(told) != 1 || !strings.Contains(told[0], `"failures"=5`) {
		t.Errorf("the log has %q, want one line after five failures", told)
	}
}

// TestMarksOfManyNamespacesAreSeen has reservations of more namespaces than have a watch each, and then of one.
func TestMarksOfManyNamespacesAreSeen(t *testing.T) {
	b := newBed(t, "many", show.Pace{})
	var namespaces []string
	for range 17 {
		namespaces = append(namespaces, env.Namespace(t))
		b.reserve(namespaces[len(namespaces)-1], "web-0", time.Hour)
	}
	if err := b.show(t); err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{namespaces[0], namespaces[16]} {
		label(t, ns, "web-0", statusOf(b, 0).Releases())
	}
	b.passTime(t, 10*time.Second)
	seen := func(want int) {
		t.Helper()
		testenv.Eventually(t, func() error {
			if got := b.Marks(); len(got) != want {
				return fmt.Errorf("marks %+v, want %d", got, want)
			}
			return nil
		})
	}
	seen(2)
	b.network.Reservations = b.network.Reservations[:1]
	b.passTime(t, 5*time.Second)
	seen(1)
}

// label marks the reservation of a pod; an empty value removes the mark.
func label(t *testing.T, ns, pod, value string) {
	t.Helper()
	var list v1alpha1.IPReservationList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if o := &list.Items[i]; o.Status.Pod == pod {
			before := o.DeepCopy()
			if o.Labels[v1alpha1.LabelRelease] = value; value == "" {
				delete(o.Labels, v1alpha1.LabelRelease)
			}
			if err := env.Client.Patch(t.Context(), o, client.MergeFrom(before)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// statusOf returns the status that shows the end of a reservation of the bed.
func statusOf(b *bed, i int) v1alpha1.IPReservationStatus {
	r := b.network.Reservations[i]
	until := metav1.NewTime(r.Deadline.From.Wall.Add(r.Deadline.For).Round(time.Second))
	return v1alpha1.IPReservationStatus{State: v1alpha1.IPReserved, Until: &until}
}
