package reconcile_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// enters puts a pod into the book of a budget, as the guard does.
func (m *manager) enters(t *testing.T, pub *policyv1beta1.PodUnavailableBudget, pod *corev1.Pod, use ledger.Use, bound time.Duration) {
	t.Helper()
	now := time.Now()
	entry := ledger.Entry{
		UID: string(pod.UID), Pod: pod.Name, Use: use, Vector: "evict", By: "someone", Since: now, Expires: now.Add(bound),
		Version: pod.ResourceVersion, Generation: pod.Generation, Restarts: budget.Restarts(pod),
	}
	if use == ledger.Changed {
		entry.Vector = "resize"
	}
	_, err := m.books.Decide(t.Context(), books.OfBudgets(pub.Namespace), func(b ledger.Book) (ledger.Book, bool) {
		return ledger.Take(b, entry)
	})
	if err != nil {
		t.Fatal(err)
	}
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
		book, err := m.books.Look(t.Context(), books.OfBudgets(pub.Namespace))
		if err == nil && len(book.Entries) > 0 {
			err = fmt.Errorf("the book has entries: %v", book.Entries)
		}
		return err
	})
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

// changed changes the image of a pod, and enters the pod as it was before, with an entry that the clock
// would have ended long ago.
func (m *manager) changed(t *testing.T, pub *policyv1beta1.PodUnavailableBudget, pod *corev1.Pod) {
	t.Helper()
	env.Change(t, pod, func() {})
	before := pod.DeepCopy()
	env.Change(t, pod, func() { pod.Spec.Containers[0].Image = "registry.example.com/second" })
	env.Known(t, m.GetClient(), &corev1.PodList{}) // else the entry ends: nothing was written until it expired
	m.enters(t, pub, before, ledger.Changed, -time.Hour)
	holds(t, pub, nil, []string{pod.Name})
	shows(t, pub, numbers{0, 2, 2, 3})
}

// kubelet writes the status of a pod as the kubelet does that has seen its last change.
func kubelet(t *testing.T, pod *corev1.Pod, restarts int32, resize string) {
	t.Helper()
	env.Read(t, client.ObjectKeyFromObject(pod), pod)
	env.ChangeStatus(t, pod, func() {
		pod.Status.ObservedGeneration = pod.Generation
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: pod.Spec.Containers[0].Name, RestartCount: restarts, Ready: true}}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if resize != "" {
			pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: resize})
		}
	})
}

// A change in place holds its unit until a container was restarted, however long that takes, and no
// longer, also where the restart is so fast that the pod stays Ready.
func TestAChangeHoldsItsUnitUntilTheRestart(t *testing.T) {
	m := startReconciler(t)
	pub, _, all := protected(t)
	m.changed(t, pub, all[1])
	kubelet(t, all[1], 0, "") // the container runs, and has a preStop hook
	m.uses(t, pub, ledger.Restarting)
	shows(t, pub, numbers{0, 2, 2, 3})
	kubelet(t, all[1], 1, "")
	m.empty(t, pub)
	holds(t, pub, nil, nil)
	shows(t, pub, numbers{1, 3, 2, 3})
	if got := m.unguarded(t); len(got) > 0 {
		t.Errorf("losses %v, want none: the pod had an entry", got)
	}
}

// A resize that the kubelet puts off holds its unit. One that the kubelet never makes gives it back.
func TestADeferredResizeHoldsItsUnit(t *testing.T) {
	m := startReconciler(t)
	pub, _, all := protected(t)
	m.changed(t, pub, all[1])
	kubelet(t, all[1], 0, corev1.PodReasonDeferred)
	m.uses(t, pub, ledger.Changed)
	kubelet(t, all[1], 3, corev1.PodReasonDeferred) // a crash
	shows(t, pub, numbers{0, 2, 2, 3})
	kubelet(t, all[1], 3, corev1.PodReasonInfeasible)
	m.empty(t, pub)
	shows(t, pub, numbers{1, 3, 2, 3})
}

// uses waits until the only entry of a book is of a use.
func (m *manager) uses(t *testing.T, pub *policyv1beta1.PodUnavailableBudget, want ledger.Use) {
	t.Helper()
	testenv.Eventually(t, func() error {
		book, err := m.books.Look(t.Context(), books.OfBudgets(pub.Namespace))
		for _, e := range book.Entries {
			if e.Use == want {
				return nil
			}
		}
		return errors.Join(err, fmt.Errorf("entries %+v, want one of use %s", book.Entries, want))
	})
}

// An entry of a change survives its budget: the budget that is made again finds the entry in the book.
func TestAChangeSurvivesItsBudget(t *testing.T) {
	m := startReconciler(t)
	pub, set, all := protected(t)
	m.changed(t, pub, all[1])
	env.Remove(t, pub)
	again := aBudget(set.Namespace, "web", intstr.FromInt32(1))
	env.Create(t, again)
	shows(t, again, numbers{0, 2, 2, 3})
	m.enters(t, again, all[0], ledger.Gone, time.Minute)
	holds(t, again, []string{"web-0"}, []string{"web-1"})
	kubelet(t, all[1], 1, "")
	holds(t, again, []string{"web-0"}, nil)
}

// The entry of a request that failed ends by itself.
func TestAnEntryExpires(t *testing.T) {
	const bound = 10 * time.Minute
	m := newManager(t)
	r, now := m.reconciler(), &ahead{}
	r.Clock = now
	m.start(t, r)
	pub, _, all := protected(t)
	m.enters(t, pub, all[1], ledger.Gone, bound)
	m.enters(t, pub, all[2], ledger.Changed, bound)
	holds(t, pub, []string{"web-1"}, []string{"web-2"})
	now.by.Store(int64(bound - 5*time.Second))
	env.Annotate(t, all[0], "example.com/look", "1") // an event, which tells the reconciler of the new time; none comes at the end
	m.empty(t, pub)
	holds(t, pub, nil, nil)
	shows(t, pub, numbers{1, 3, 2, 3})
}

// The budgets of a namespace share a book, and each shows the pods that it covers.
func TestBudgetsThatShareABook(t *testing.T) {
	m := startReconciler(t)
	pub, set, all := protected(t)
	second := aBudget(set.Namespace, "one", intstr.FromInt32(1))
	env.Patch(t, all[1], `{"metadata":{"labels":{"only":"one"}}}`)
	second.Spec.Selector.MatchLabels = map[string]string{"only": "one"}
	env.Create(t, second)
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

// A SidecarSet of OpenKruise changes pods in place, one after the other as its budget permits. The
// container restarts at once, the pod stays Ready, and the next pod need not wait for any clock.
func TestFivePodsAreChangedOneAfterTheOther(t *testing.T) {
	m := newManager(t)
	m.guarding(t)
	m.start(t, m.reconciler())
	set := testenv.AStatefulSet("web", 5).In(env.Namespace(t))
	env.Patch(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: set.Namespace}}, `{"metadata":{"labels":{"limpet.dev/budgets":"open"}}}`)
	pub := aBudget(set.Namespace, "web", intstr.FromInt32(1))
	env.Create(t, set.StatefulSet, pub)
	all := pods(t, set, 5)
	has(t, pub, enforced, metav1.ConditionTrue, "Enforced", "")
	shows(t, pub, numbers{1, 5, 4, 5})
	changed := 0
	testenv.Eventually(t, func() error { // a minute, and not 40 s for each pod
		for ; changed < len(all); changed++ {
			pod := all[changed]
			env.Read(t, client.ObjectKeyFromObject(pod), pod)
			pod.Spec.Containers[0].Image = "registry.example.com/second"
			if err := env.Client.Update(t.Context(), pod); err != nil {
				return fmt.Errorf("after %d pods: %w", changed, err)
			}
			kubelet(t, pod, 1, "")
		}
		return nil
	})
	m.empty(t, pub)
	env.Remove(t, pub) // or else the guard keeps the pods
}
