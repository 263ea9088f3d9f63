package reconcile_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// pinnedTo are the annotations with which the webhook pins a pod to a node.
func pinnedTo(node string) []string {
	return []string{appsv1beta1.AnnotationInjected, "web", pin.AnnotationNode, node}
}

// A pod is rebuilt three times: kept, with another address, and on another node. The
// status, an event on the pod and a metric say so each time.
func TestTheOutcomeOfARebuildIsReported(t *testing.T) {
	m := newManager(t)
	m.start(t, m.recorder())
	home, other, set := env.Node(t), env.Node(t), preferring(t)
	pod := running(t, set, home.Name, "10.0.1.5")
	steps := []struct {
		node, ip string
		want     appsv1beta1.Rebuilds
	}{
		{home.Name, "10.0.1.5", appsv1beta1.Rebuilds{Kept: 1, Last: &appsv1beta1.Rebuild{Outcome: appsv1beta1.Kept}}},
		{home.Name, "10.0.1.6", appsv1beta1.Rebuilds{Kept: 1, Lost: 1, Last: &appsv1beta1.Rebuild{Outcome: appsv1beta1.Lost, Cause: pin.CauseReclaimed}}},
		{other.Name, "10.0.2.5", appsv1beta1.Rebuilds{Kept: 1, Lost: 1, Moved: 1, Last: &appsv1beta1.Rebuild{Outcome: appsv1beta1.Moved, Cause: pin.CauseNodeRefused}}},
	}
	for _, step := range steps {
		step.want.Last.Pod, step.want.Last.From = "web-0", placeOf(pod)
		env.Remove(t, pod)
		if step.want.Last.Outcome == appsv1beta1.Lost {
			env.Create(t, testenv.APod("other").In(set.Namespace).On(home.Name).At("10.0.1.5").Ready().Pod)
		}
		before := pod.UID
		pod = running(t, set, step.node, step.ip, pinnedTo(home.Name)...)
		step.want.Last.To = placeOf(pod)
		counted(t, set, step.want)
		env.Told(t, pod, string(step.want.Last.Outcome), step.node)
		measured(t, m, step.want.Last.Outcome, step.want.Last.Cause)
		// A life on another node is remembered, so that what that node shows later is known.
		formers := env.MustState(t, set).Status.PodStates["web-0"].FormerUIDs
		if moved := step.want.Last.Outcome == appsv1beta1.Moved; slices.Contains(formers, before) != moved {
			t.Errorf("former lives %v after %s from %s", formers, step.want.Last.Outcome, before)
		}
	}
}

// A node is installed again after its pod was recorded. The pod's address is lost by that, also if another pod has it.
func TestALossByANewStateIsReported(t *testing.T) {
	m := newManager(t)
	m.start(t, m.recorder())
	home, set := env.Node(t), preferring(t)
	former := running(t, set, home.Name, "10.0.1.5")
	env.Remove(t, former)
	began := metav1.NewTime(time.Now().Add(time.Minute))
	pool := &limpetv1alpha1.NodeIPPool{Status: limpetv1alpha1.NodeIPPoolStatus{Node: home.Name, Network: "net", StateSince: &began}}
	pool.Name = home.Name + ".net"
	env.Create(t, pool, testenv.APod("other").In(set.Namespace).On(home.Name).At("10.0.1.5").Ready().Pod)
	testenv.Eventually(t, func() error {
		return m.GetClient().Get(t.Context(), client.ObjectKeyFromObject(pool), &limpetv1alpha1.NodeIPPool{})
	})
	after := running(t, set, home.Name, "10.0.1.6", pinnedTo(home.Name)...)
	lost := appsv1beta1.Rebuild{Pod: "web-0", Outcome: appsv1beta1.Lost, Cause: pin.CauseStateReplaced, From: placeOf(former), To: placeOf(after)}
	counted(t, set, appsv1beta1.Rebuilds{Lost: 1, Last: &lost})
	env.Told(t, after, string(appsv1beta1.Lost), "began a new state")
	measured(t, m, appsv1beta1.Lost, pin.CauseStateReplaced)
}

// A pod asks for its node and for no address. It comes back to the node with another address:
// it is kept, and the addresses are told without a warning.
func TestAPodThatAsksForNoAddressIsKeptOnItsNode(t *testing.T) {
	m := newManager(t)
	home, set := env.Node(t), preferring(t)
	m.start(t, m.recorder()) // now: a cache may show the end of a pod before its StatefulSet, and nothing is kept without it
	unasking := func(ip string) *corev1.Pod {
		pod := testenv.APod("web-0").In(set.Namespace).OwnedBy(set.StatefulSet).On(home.Name).At(ip).Ready().Pod
		env.Create(t, pod)
		return pod
	}
	before := unasking("10.0.1.5")
	testenv.Eventually(t, func() error {
		state, err := env.State(t, set)
		if got := state.Status.PodStates["web-0"]; err == nil && got.UID != before.UID {
			err = fmt.Errorf("record: %+v", got)
		}
		return err
	})
	env.Remove(t, before)
	after := unasking("10.0.1.6")
	kept := appsv1beta1.Rebuild{Pod: "web-0", Outcome: appsv1beta1.Kept, From: placeOf(before), To: placeOf(after)}
	counted(t, set, appsv1beta1.Rebuilds{Kept: 1, Last: &kept})
	env.Told(t, after, string(appsv1beta1.Kept), "10.0.1.6, before on node "+home.Name+" with 10.0.1.5")
	measured(t, m, appsv1beta1.Kept, "")
}

// A pod of a StatefulSet is scaled away, and a plain pod of its name takes the reserved address.
// That is told at once, and it is the cause when the StatefulSet's pod comes back without it.
func TestAPodThatTakesANameIsTold(t *testing.T) {
	startRecorder(t)
	home, set := env.Node(t), preferring(t)
	pod := running(t, set, home.Name, "10.0.1.5")
	env.Remove(t, pod)
	plain := testenv.APod("web-0").In(set.Namespace).On(home.Name).At("10.0.1.5").Ready().Pod
	env.Create(t, plain)
	const said = "is not of StatefulSet web and has 10.0.1.5"
	env.Told(t, plain, pin.ReasonNameTaken, said)
	env.Told(t, env.MustState(t, set), pin.ReasonNameTaken, said)
	env.Remove(t, plain)
	after := running(t, set, home.Name, "10.0.1.6", pinnedTo(home.Name)...)
	lost := appsv1beta1.Rebuild{Pod: "web-0", Outcome: appsv1beta1.Lost, Cause: pin.CauseNameTaken, From: placeOf(pod), To: placeOf(after)}
	counted(t, set, appsv1beta1.Rebuilds{Lost: 1, Last: &lost})
}

// A required topology names a label that no node has. Condition and event say so when the pod is
// recorded, and the pod's move names the label, although the node is cordoned.
func TestATopologyThatNoNodeHasIsTold(t *testing.T) {
	startRecorder(t)
	ns, home, other := env.Namespace(t), env.Node(t), env.Node(t)
	set, state := testenv.AStatefulSet("web", 1).In(ns), testenv.APersistentPodState("web").In(ns).Requires("kubernetes.io/hostnam")
	env.Create(t, set.StatefulSet, state.PersistentPodState)
	pod := running(t, set, home.Name, "10.0.1.5")
	testenv.Eventually(t, func() error {
		got, err := env.State(t, set)
		c := meta.FindStatusCondition(got.Status.Conditions, appsv1beta1.ConditionTopologyUnknown)
		if err == nil && (c == nil || !strings.Contains(c.Message, "no label kubernetes.io/hostnam")) {
			err = fmt.Errorf("condition %+v", c)
		}
		return err
	})
	env.Told(t, state.PersistentPodState, appsv1beta1.ReasonNodeLabelMissing, "node "+home.Name+" has no label")
	env.Cordon(t, home.Node)
	env.Remove(t, pod)
	pod = running(t, set, other.Name, "10.0.2.5", appsv1beta1.AnnotationInjected, "web", pin.AnnotationUnpinned, pin.ReasonNodeCordoned)
	env.Told(t, pod, string(appsv1beta1.Moved), appsv1beta1.ReasonNodeLabelMissing)
}

// The address went to a pod of another namespace. Status and event do not say to which.
func TestARebuildNamesNoPodOfAnotherNamespace(t *testing.T) {
	m := newManager(t)
	m.start(t, m.recorder())
	home, set := env.Node(t), preferring(t)
	other := testenv.APod("payroll-db-0").In(env.Namespace(t)).On(home.Name).At("10.0.1.77").Ready()
	env.Create(t, other.Pod)
	pod := running(t, set, home.Name, "10.0.1.5", reservation.RetainAnnotation, "10", pin.AnnotationRecalled, home.Name, pin.AnnotationFormer, "u 10.0.1.77")
	env.Told(t, pod, string(appsv1beta1.Lost), "a pod of another namespace")
	last := env.MustState(t, set).Status.Rebuilds.Last
	if last.Cause != pin.CauseReclaimed || strings.Contains(last.Message, other.Name) || strings.Contains(last.Message, other.Namespace) {
		t.Errorf("told %+v", last)
	}
}

func placeOf(pod *corev1.Pod) appsv1beta1.Place {
	return appsv1beta1.Place{NodeName: pod.Spec.NodeName, IPs: pod.Status.PodIPs[0].IP}
}

// counted waits until the status counts these rebuilds.
func counted(t *testing.T, set testenv.StatefulSet, want appsv1beta1.Rebuilds) {
	t.Helper()
	testenv.Eventually(t, func() error {
		state, err := env.State(t, set)
		if err != nil {
			return err
		}
		got := state.Status.Rebuilds
		if got == nil {
			return fmt.Errorf("no rebuild was counted")
		}
		got.Last.Time, got.Last.Message = want.Last.Time, ""
		if diff := cmp.Diff(&want, got); diff != "" {
			return fmt.Errorf("rebuilds (-want +got):\n%s", diff)
		}
		return nil
	})
}

// measured wants one rebuild of this outcome and cause in the metrics.
func measured(t *testing.T, m *manager, outcome appsv1beta1.Outcome, cause string) {
	t.Helper()
	families, err := m.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			want := map[string]string{"outcome": string(outcome), "cause": cause}
			if family.GetName() == "limpet_rebuilds_total" && maps.Equal(labels, want) && metric.GetCounter().GetValue() == 1 {
				return
			}
		}
	}
	t.Errorf("metrics %v do not count one rebuild %s for %q", families, outcome, cause)
}

// generating begins a StatefulSet that asks for its PersistentPodState by annotation.
func generating(ns string) testenv.StatefulSet {
	return testenv.AStatefulSet("web", 1).In(ns).
		With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationPreferredTopology, hostname)
}

// A StatefulSet is deleted and applied again. Its PersistentPodState belongs to the new
// one, and its pod counts as kept. No owner makes a garbage collector take the object.
func TestRecordsOutliveAStatefulSetThatIsAppliedAgain(t *testing.T) {
	cases := map[string]struct {
		collect func(t *testing.T, s *appsv1beta1.PersistentPodState, former testenv.StatefulSet)
		adopted bool // the former object is expected to live on
	}{
		"with its record": {func(t *testing.T, s *appsv1beta1.PersistentPodState, _ testenv.StatefulSet) {
			if len(s.OwnerReferences) > 0 {
				t.Errorf("owners %v: the garbage collector takes the record along", s.OwnerReferences)
			}
		}, true},
		"with that of a former version": {func(t *testing.T, s *appsv1beta1.PersistentPodState, former testenv.StatefulSet) {
			own(t, s, testenv.APod("web-0").OwnedBy(former.StatefulSet).OwnerReferences)
		}, true},
		"after the record was deleted too": {func(t *testing.T, s *appsv1beta1.PersistentPodState, _ testenv.StatefulSet) {
			env.Remove(t, s)
		}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := newManager(t)
			m.start(t, m.recorder(), m.generator())
			ns, node := env.Namespace(t), env.Node(t)
			former, next := generating(ns), generating(ns)
			env.Create(t, former.StatefulSet)
			pod := running(t, former, node.Name, "10.0.2.9")
			state := env.MustState(t, former)
			env.Remove(t, former.StatefulSet)
			env.Remove(t, pod)
			tc.collect(t, state, former)

			env.Create(t, next.StatefulSet)
			annotations := pinnedTo(node.Name)
			if !tc.adopted { // the webhook knew the node by the addresses that it held
				annotations = append(annotations, pin.AnnotationRecalled, node.Name, pin.AnnotationFormer, string(pod.UID)+" 10.0.2.9")
			}
			belongsTo(t, next, *state, tc.adopted)
			again := running(t, next, node.Name, "10.0.2.9", annotations...)
			kept := appsv1beta1.Rebuild{Pod: "web-0", Outcome: appsv1beta1.Kept, From: placeOf(pod), To: placeOf(again)}
			counted(t, next, appsv1beta1.Rebuilds{Kept: 1, Last: &kept})
		})
	}
}

// A StatefulSet is deleted, all controllers are started again, and the set is applied again. The record
// was stored all the time, so that the webhook finds the pod's node in it, and a move is told.
func TestRecordsOutliveARestartOfAllControllers(t *testing.T) {
	first := newManager(t)
	stop := first.start(t, first.recorder(), first.generator())
	ns, home, other := env.Namespace(t), env.Node(t), env.Node(t)
	former, next := generating(ns), generating(ns)
	env.Create(t, former.StatefulSet)
	pod := running(t, former, home.Name, "10.0.2.9")
	state := env.MustState(t, former)
	env.Remove(t, former.StatefulSet)
	env.Remove(t, pod)
	stop()

	second := newManager(t)
	second.start(t, second.recorder(), second.generator())
	env.Condition(t, former, appsv1beta1.ConditionRecording, metav1.ConditionFalse, appsv1beta1.ReasonTargetMissing, "")
	env.RecordedOn(t, former, map[string]string{"web-0": home.Name})
	env.Create(t, next.StatefulSet)
	again := running(t, next, other.Name, "10.0.3.9", pinnedTo(home.Name)...)
	belongsTo(t, next, *state, true)
	moved := appsv1beta1.Rebuild{Pod: "web-0", Outcome: appsv1beta1.Moved, Cause: pin.CauseNodeRefused, From: placeOf(pod), To: placeOf(again)}
	counted(t, next, appsv1beta1.Rebuilds{Moved: 1, Last: &moved})
	env.Told(t, again, string(appsv1beta1.Moved), other.Name)
}

// belongsTo waits until a StatefulSet has its PersistentPodState, and reports whether that is the object
// before.
func belongsTo(t *testing.T, set testenv.StatefulSet, before appsv1beta1.PersistentPodState, adopted bool) {
	t.Helper()
	testenv.Eventually(t, func() error {
		state, err := env.State(t, set)
		if err == nil && (state.UID == before.UID) != adopted {
			t.Errorf("adopted %v, want %v", state.UID == before.UID, adopted)
		}
		return err
	})
}

// own gives an object other owners, and takes away what waits for the garbage collector.
func own(t *testing.T, o client.Object, owners []metav1.OwnerReference) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return client.IgnoreNotFound(err)
		}
		o.SetOwnerReferences(owners)
		o.SetFinalizers(nil)
		return env.Client.Update(t.Context(), o)
	})
}

// Pods run on while their StatefulSet is deleted and created again, as for a change of an
// immutable field. The pods ask for no address, so only the record knows their nodes.
func TestRunningPodsAreAdoptedByAStatefulSetThatIsMadeAnew(t *testing.T) {
	m := newManager(t)
	m.start(t, m.recorder(), m.generator())
	ns, node := env.Namespace(t), env.Node(t)
	former, next := generating(ns), generating(ns)
	env.Create(t, former.StatefulSet)
	pod := testenv.APod("web-0").In(ns).OwnedBy(former.StatefulSet).On(node.Name).Ready().Pod
	env.Create(t, pod)
	env.RecordedOn(t, former, map[string]string{"web-0": node.Name})
	state := env.MustState(t, former)
	if err := env.Client.Delete(t.Context(), former.StatefulSet, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{former.StatefulSet, state, pod} { // what the garbage collector does
		own(t, o, nil)
	}
	env.RecordedOn(t, former, map[string]string{})

	env.Create(t, next.StatefulSet)
	belongsTo(t, next, *state, true)
	own(t, pod, testenv.APod("web-0").OwnedBy(next.StatefulSet).OwnerReferences)
	env.RecordedOn(t, next, map[string]string{"web-0": node.Name})
}
