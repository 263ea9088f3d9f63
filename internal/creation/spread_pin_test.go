package creation_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// pinnedSet is a StatefulSet of two pods that are both recorded on a node of zone b.
func pinnedSet(t *testing.T, ns string, state testenv.PersistentPodState) (set *appsv1.StatefulSet, node string) {
	t.Helper()
	inA := testenv.ANode(env.Name("zone-a")).Labelled(corev1.LabelTopologyZone, "a")
	inB := testenv.ANode(env.Name("zone-b")).Labelled(corev1.LabelTopologyZone, "b")
	set = testenv.AStatefulSet("web", 2).In(ns).StatefulSet
	put(t, inA.Node, inB.Node, set)
	for _, pod := range []string{"web-0", "web-1"} {
		state = state.Recorded(pod, inB.Name, map[string]string{hostname: inB.Name})
	}
	put(t, state.PersistentPodState)
	return set, inB.Name
}

// A recorded node decides the subset. Where that subset is full and the node is only preferred, the spread wins:
// neither the gate nor an annotation of the pin stays.
func TestTheSpreadAndThePin(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	s := aSpread(ns, "web", "apps/v1", "StatefulSet", "web", "a", "b=1")
	env.Create(t, s)
	set, node := pinnedSet(t, ns, testenv.APersistentPodState("web").In(ns).Prefers(100, hostname))
	sent(t, testenv.APod("web-0").In(ns).OwnedBy(set).Pod)
	pods := placed(t, "b a", testenv.APod("web-0").In(ns).OwnedBy(set).Pod, testenv.APod("web-1").In(ns).OwnedBy(set).Pod)
	if home := pods[0]; home.Annotations[pin.AnnotationNode] != node || requires(home, "b") != nil {
		t.Errorf("annotations %v, affinity %+v", home.Annotations, home.Spec.Affinity)
	}
	away := pods[1]
	if away.Annotations[pin.AnnotationNode] != "" || away.Annotations[pin.AnnotationUnpinned] != pin.ReasonSubsetElsewhere || len(away.Spec.SchedulingGates) > 0 {
		t.Errorf("annotations %v, gates %v", away.Annotations, away.Spec.SchedulingGates)
	}
	if err := requires(away, "a"); err != nil || len(away.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions) != 1 {
		t.Errorf("%v, affinity %+v", err, away.Spec.Affinity)
	}
	env.Told(t, s, "SubsetFull", "web-1")
}

// A required place overrules the maximum of its subset. Without it the pod would start on another node, and without its data.
func TestARequiredPlaceOverrulesTheSpread(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	s := aSpread(ns, "web", "apps/v1", "StatefulSet", "web", "a", "b=1")
	env.Create(t, s)
	set, node := pinnedSet(t, ns, testenv.APersistentPodState("web").In(ns).Requires(hostname))
	sent(t, testenv.APod("web-0").In(ns).OwnedBy(set).Pod)
	for _, pod := range placed(t, "b b", testenv.APod("web-0").In(ns).OwnedBy(set).Pod, testenv.APod("web-1").In(ns).OwnedBy(set).Pod) {
		if pod.Annotations[pin.AnnotationNode] != node || pod.Annotations[podpatch.AnnotationPlace] == "" || requires(pod, "b") != nil {
			t.Errorf("annotations %v, affinity %+v", pod.Annotations, pod.Spec.Affinity)
		}
	}
	env.Told(t, s, "PlaceRequired", "web-1")
}

// A required place that no subset contains keeps its pod, which gets no subset.
func TestARequiredPlaceOfNoSubset(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	s := aSpread(ns, "web", "apps/v1", "StatefulSet", "web", "a", "c")
	env.Create(t, s)
	set, node := pinnedSet(t, ns, testenv.APersistentPodState("web").In(ns).Requires(hostname))
	sent(t, testenv.APod("web-0").In(ns).OwnedBy(set).Pod)
	pod := admitted(t, testenv.APod("web-0").In(ns).OwnedBy(set).Pod)
	if subsetOf(pod) != "" || pod.Annotations[pin.AnnotationNode] != node || pod.Annotations[podpatch.AnnotationPlace] == "" {
		t.Errorf("subset %q, annotations %v", subsetOf(pod), pod.Annotations)
	}
	env.Told(t, s, "NodeOutsideSubsets", node)
}

// A skipped subset keeps a pod whose recorded node has room, though the place is only preferred. A pod that the scheduler
// refused there goes on: else it would come back to the subset forever.
func TestASkippedSubsetKeepsAPodWhoseNodeHasRoom(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	s := aSpread(ns, "web", "apps/v1", "StatefulSet", "web", "b=2", "a")
	s.Spec.ScheduleStrategy = appsv1beta1.WorkloadSpreadScheduleStrategy{
		Type: appsv1beta1.SpreadAdaptive, Adaptive: &appsv1beta1.AdaptiveSpread{RescheduleCriticalSeconds: new(int32(60))},
	}
	env.Create(t, s)
	skip(t, s, "b")
	set, node := pinnedSet(t, ns, testenv.APersistentPodState("web").In(ns).Prefers(100, hostname))
	again := testenv.APod("web-0").In(ns).OwnedBy(set).Pod
	sent(t, again)
	stranger := testenv.APod("web-7").In(ns).OwnedBy(set).Pod // without a record; its subset tells that the skip is seen
	foreseen(t, "a", stranger)
	pod := placed(t, "b", again.DeepCopy())[0]
	if pod.Annotations[pin.AnnotationNode] != node {
		t.Errorf("annotations %v", pod.Annotations)
	}
	pod.Spec.SchedulingGates = nil
	if err := env.Client.Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(time.Now()),
	}}
	if err := env.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	env.Remove(t, pod)
	foreseen(t, "a", again)
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err == nil {
		t.Error("the pod is still there")
	}
}

// skip writes which subset of a spread takes no pods for now; "" for none.
func skip(t *testing.T, s *appsv1beta1.WorkloadSpread, subset string) {
	t.Helper()
	env.ChangeStatus(t, s, func() {
		s.Status.SubsetStatuses = []appsv1beta1.WorkloadSpreadSubsetStatus{{Name: subset, Conditions: []metav1.Condition{{
			Type: appsv1beta1.ConditionSchedulable, Status: metav1.ConditionFalse, Reason: appsv1beta1.ReasonPodUnschedulable, LastTransitionTime: metav1.Now(),
		}}}}
	})
}

// A pod that fell back, and was recorded there, goes to its own subset when it is created again: its user asks for that. The
// pin does not keep it, also where the place was preferred.
func TestAPodThatFellBackIsNotKeptByItsRecord(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	s := aSpread(ns, "web", "apps/v1", "StatefulSet", "web", "a=3", "b")
	s.Spec.ScheduleStrategy = appsv1beta1.WorkloadSpreadScheduleStrategy{Type: appsv1beta1.SpreadAdaptive, Adaptive: &appsv1beta1.AdaptiveSpread{
		RescheduleCriticalSeconds: new(int32(60)), ReturnPolicy: appsv1beta1.ReturnWhenRecovered,
	}}
	env.Create(t, s)
	skip(t, s, "a")
	set := testenv.AStatefulSet("web", 2).In(ns).StatefulSet
	put(t, set)
	again, stranger := testenv.APod("web-0").In(ns).OwnedBy(set).Pod, testenv.APod("web-7").In(ns).OwnedBy(set).Pod
	sent(t, again)
	foreseen(t, "b", stranger)
	fell := placed(t, "b", again.DeepCopy())[0]
	annotated(t, fell, map[string]string{appsv1beta1.AnnotationHomeSubset: "a"})
	inB := testenv.ANode(env.Name("zone-b")).Labelled(corev1.LabelTopologyZone, "b")
	put(t, inB.Node)
	put(t, testenv.APersistentPodState("web").In(ns).Prefers(100, hostname).Recorded("web-0", inB.Name, map[string]string{hostname: inB.Name}).PersistentPodState)
	foreseen(t, "b", stranger)
	skip(t, s, "")
	foreseen(t, "a", stranger)
	env.Remove(t, fell)
	foreseen(t, "a", again)
	pod := placed(t, "a", again)[0]
	annotated(t, pod, map[string]string{appsv1beta1.AnnotationHomeSubset: "", pin.AnnotationNode: "", pin.AnnotationUnpinned: pin.ReasonSubsetElsewhere})
	if n := env.CountEvents(t, s, "Filled"); n != 0 {
		t.Errorf("%d events say that a subset had a free slot", n)
	}
}
