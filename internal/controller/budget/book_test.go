package budget_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/books"
	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	"github.com/limpet-io/limpet/pkg/ledger"
)

// enters puts a pod into the book of a budget, as the guard does.
func (m *manager) enters(t *testing.T, pub *policyv1beta1.PodUnavailableBudget, pod *corev1.Pod, use ledger.Use, bound time.Duration) {
	t.Helper()
	now := time.Now()
	entry := ledger.Entry{
		UID: string(pod.UID), Pod: pod.Name, Use: use, Vector: "evict", By: "someone", Since: now, Expires: now.Add(bound),
		Version: pod.ResourceVersion, ReadySince: readySince(pod),
	}
	_, err := m.books.Decide(t.Context(), pub.Namespace, []books.Owner{{Name: pub.Name, UID: pub.UID}}, func(b ledger.Book) (ledger.Book, bool) {
		return ledger.Take(b, entry)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func readySince(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// holds waits for the pods that a budget shows as on their way.
func holds(t *testing.T, pub *policyv1beta1.PodUnavailableBudget, disrupted, changed []string) {
	t.Helper()
	status(t, pub, func(s policyv1beta1.PodUnavailableBudgetStatus) error {
		diff := cmp.Diff(disrupted, slices.Sorted(maps.Keys(s.DisruptedPods))) + cmp.Diff(changed, slices.Sorted(maps.Keys(s.UnavailablePods)))
		if diff != "" {
			return fmt.Errorf("pods on their way (-want +got):\n%s", diff)
		}
		return nil
	})
}

// empty waits until the book of a budget has no entry.
func (m *manager) empty(t *testing.T, pub *policyv1beta1.PodUnavailableBudget) {
	t.Helper()
	testenv.Eventually(t, func() error {
		book, err := m.books.Look(t.Context(), pub.Namespace, []books.Owner{{Name: pub.Name, UID: pub.UID}})
		if err == nil && len(book.Entries) > 0 {
			err = fmt.Errorf("the book has entries: %v", book.Entries)
		}
		return err
	})
}

// ready sets the condition Ready of a pod, with the time of its change.
func ready(t *testing.T, pod *corev1.Pod, now corev1.ConditionStatus, at time.Time) {
	t.Helper()
	env.Change(t, pod, func() {})
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: now, LastTransitionTime: metav1.NewTime(at)}}
	if err := env.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// protected makes a StatefulSet of three Ready pods with a budget of one.
func protected(t *testing.T) (*policyv1beta1.PodUnavailableBudget, testenv.StatefulSet, []*corev1.Pod) {
	t.Helper()
	set := testenv.AStatefulSet("web", 3).In(env.Namespace(t))
	pub := aBudget(set.Namespace, "web", intstr.FromInt32(1))
	env.Create(t, set.StatefulSet)
	all := pods(t, set, 3)
	env.Create(t, pub)
	shows(t, pub, numbers{1, 3, 2, 3})
	return pub, set, all
}

// An entry counts until its pod is seen to go. A successor of the same name is another pod.
func TestAnEntryLeavesWithItsPod(t *testing.T) {
	m := startReconciler(t)
	pub, set, all := protected(t)
	m.enters(t, pub, all[0], ledger.Gone, time.Minute)
	holds(t, pub, []string{"web-0"}, nil)
	shows(t, pub, numbers{0, 2, 2, 3})

	env.Remove(t, all[0])
	holds(t, pub, nil, nil)
	m.empty(t, pub)
	successor := testenv.APod("web-0").In(set.Namespace).OwnedBy(set.StatefulSet).Ready()
	successor.Labels = set.Spec.Selector.MatchLabels
	env.Create(t, successor.Pod)
	shows(t, pub, numbers{1, 3, 2, 3})
	holds(t, pub, nil, nil)
	if got := m.unguarded(t); len(got) > 0 {
		t.Errorf("losses %v, want none: the pod had an entry", got)
	}
}

// A pod that terminates has used its entry, however long it takes to end.
func TestAnEntryLeavesWhenItsPodTerminates(t *testing.T) {
	m := startReconciler(t)
	pub, _, all := protected(t)
	env.Patch(t, all[0], `{"metadata":{"finalizers":["example.com/stay"]}}`)
	m.enters(t, pub, all[0], ledger.Gone, time.Minute)
	holds(t, pub, []string{"web-0"}, nil)
	env.Remove(t, all[0])
	m.empty(t, pub)
	shows(t, pub, numbers{0, 2, 2, 3})
	holds(t, pub, nil, nil)
	env.Patch(t, all[0], `{"metadata":{"finalizers":null}}`)
}

// A pod that was changed in place has used its entry when it is Ready again.
func TestAnEntryLeavesWhenItsPodIsReadyAgain(t *testing.T) {
	m := startReconciler(t)
	pub, _, all := protected(t)
	begin := time.Now().Add(-time.Hour)
	ready(t, all[1], corev1.ConditionTrue, begin)
	m.enters(t, pub, all[1], ledger.Changed, time.Minute)
	holds(t, pub, nil, []string{"web-1"})
	ready(t, all[1], corev1.ConditionFalse, begin.Add(time.Minute))
	shows(t, pub, numbers{0, 2, 2, 3})
	holds(t, pub, nil, []string{"web-1"})
	ready(t, all[1], corev1.ConditionTrue, begin.Add(2*time.Minute))
	holds(t, pub, nil, nil)
	shows(t, pub, numbers{1, 3, 2, 3})
	m.empty(t, pub)
	if got := m.unguarded(t); len(got) > 0 {
		t.Errorf("losses %v, want none: the pod had an entry", got)
	}
}

// The entry of a request that failed ends by itself.
func TestAnEntryExpires(t *testing.T) {
	m := startReconciler(t)
	pub, _, all := protected(t)
	m.enters(t, pub, all[2], ledger.Gone, 3*time.Second)
	holds(t, pub, []string{"web-2"}, nil)
	m.empty(t, pub)
	holds(t, pub, nil, nil)
	shows(t, pub, numbers{1, 3, 2, 3})
}

// Budgets that share pods share a book, and each shows the pods that it covers.
func TestBudgetsThatShareABook(t *testing.T) {
	m := startReconciler(t)
	pub, set, all := protected(t)
	second := aBudget(set.Namespace, "one", intstr.FromInt32(1))
	env.Patch(t, all[1], `{"metadata":{"labels":{"only":"one"}}}`)
	second.Spec.Selector.MatchLabels = map[string]string{"only": "one"}
	env.Create(t, second)
	owners := []books.Owner{{Name: pub.Name, UID: pub.UID}, {Name: second.Name, UID: second.UID}}
	_, err := m.books.Decide(t.Context(), pub.Namespace, owners, func(b ledger.Book) (ledger.Book, bool) { return b, true })
	if err != nil {
		t.Fatal(err)
	}
	m.enters(t, pub, all[0], ledger.Gone, time.Minute)
	m.enters(t, second, all[1], ledger.Gone, time.Minute)
	holds(t, pub, []string{"web-0", "web-1"}, nil)
	holds(t, second, []string{"web-1"}, nil)
}

// The next leader keeps the books, and counts nothing that happened before its time.
func TestTheNextLeaderGoesOn(t *testing.T) {
	first := newManager(t)
	stop := first.start(t, first.reconciler())
	pub, _, all := protected(t)
	first.enters(t, pub, all[0], ledger.Gone, time.Minute)
	holds(t, pub, []string{"web-0"}, nil)
	stop()
	env.Remove(t, all[0])
	env.Remove(t, all[1]) // without an entry
	next := startReconciler(t)
	next.empty(t, pub)
	shows(t, pub, numbers{0, 1, 2, 3})
	env.Remove(t, all[2])
	next.counted(t, map[string]float64{"NotJudged": 1})
}
