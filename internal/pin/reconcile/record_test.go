package reconcile_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// running makes the first pod of a StatefulSet, Ready on a node, and waits for its record.
func running(t *testing.T, set testenv.StatefulSet, node, ip string, annotations ...string) *corev1.Pod {
	t.Helper()
	pod := podOf(set, annotations...).On(node).At(ip).Ready().Pod
	env.Create(t, pod)
	testenv.Eventually(t, func() error {
		state, err := env.State(t, set)
		if got := state.Status.PodStates[pod.Name]; err == nil && (got.UID != pod.UID || got.NodeName != node || got.IPs != ip) {
			err = fmt.Errorf("record: %+v", got)
		}
		return err
	})
	return pod
}

// podOf begins the first pod of a StatefulSet, which asks to keep its address, with keys
// and values of further annotations.
func podOf(set testenv.StatefulSet, annotations ...string) testenv.Pod {
	pod := testenv.APod(set.Name+"-0").In(set.Namespace).OwnedBy(set.StatefulSet).With(reservation.RetainAnnotation, "10")
	for i := 0; i < len(annotations); i += 2 {
		pod = pod.With(annotations[i], annotations[i+1])
	}
	return pod
}

// preferring makes a StatefulSet of one pod, and a PersistentPodState that prefers the
// pod's node.
func preferring(t *testing.T) testenv.StatefulSet {
	t.Helper()
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 1).In(ns)
	env.Create(t, set.StatefulSet, testenv.APersistentPodState("web").In(ns).Prefers(100, hostname).PersistentPodState)
	return set
}

func TestAReadyPodIsRecorded(t *testing.T) {
	startRecorder(t)
	node, set := env.Node(t), preferring(t)
	pod := running(t, set, node.Name, "10.0.1.5")
	got := env.MustState(t, set).Status.PodStates[pod.Name]
	want := appsv1beta1.PodState{
		UID: pod.UID, NodeName: node.Name, NodeTopologyLabels: map[string]string{hostname: node.Name},
		IPs: "10.0.1.5", RetainSeconds: 600, RecordedAt: got.RecordedAt,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if got.RecordedAt == nil || time.Since(got.RecordedAt.Time).Abs() > time.Minute {
		t.Errorf("recorded at %v, want about now", got.RecordedAt)
	}
}

// The record of a pod that is away stays, also where a StatefulSet does not count from 0.
func TestRecordsFollowTheOrdinalsOfAStatefulSet(t *testing.T) {
	ns, first, second := env.Namespace(t), env.Node(t), env.Node(t)
	set := testenv.AStatefulSet("web", 2).In(ns).StartingAt(5)
	env.Create(t, set.StatefulSet, testenv.APersistentPodState("web").In(ns).Prefers(100, hostname).PersistentPodState)
	startRecorder(t) // now: a cache may show the end of a pod before its StatefulSet, and nothing is kept without it
	away := testenv.APod("web-5").In(ns).OwnedBy(set.StatefulSet).On(first.Name).Ready().Pod
	env.Create(t, away)
	env.RecordedOn(t, set, map[string]string{"web-5": first.Name})
	env.Remove(t, away)
	env.Create(t, testenv.APod("web-6").In(ns).OwnedBy(set.StatefulSet).On(second.Name).Ready().Pod)
	// A recorder that has seen the second pod has seen the deletion of the first.
	env.RecordedOn(t, set, map[string]string{"web-5": first.Name, "web-6": second.Name})
}

func TestRecordsFollowLabelsAndKeys(t *testing.T) {
	const rack = "example.com/rack"
	startRecorder(t)
	ns, node := env.Namespace(t), testenv.ANode(env.Name("node")).Labelled(rack, "r1")
	set := testenv.AStatefulSet("web", 1).In(ns)
	state := testenv.APersistentPodState("web").In(ns).Prefers(100, rack).PersistentPodState
	env.Create(t, node.Node, set.StatefulSet, state)
	env.Create(t, testenv.APod("web-0").In(ns).OwnedBy(set.StatefulSet).On(node.Name).Ready().Pod)
	labelled := func(want map[string]string) {
		t.Helper()
		testenv.Eventually(t, func() error {
			state, err := env.State(t, set)
			if diff := cmp.Diff(want, state.Status.PodStates["web-0"].NodeTopologyLabels); err == nil && diff != "" {
				err = fmt.Errorf("recorded labels (-want +got):\n%s", diff)
			}
			return err
		})
	}
	labelled(map[string]string{rack: "r1"})
	env.Patch(t, node.Node, `{"metadata":{"labels":{"example.com/rack":"r2"}}}`)
	labelled(map[string]string{rack: "r2"})
	env.Change(t, state, func() { state.Spec.PreferredPersistentTopology[0].Preference.Keys = []string{rack, hostname} })
	labelled(map[string]string{rack: "r2", hostname: node.Name})
}

func TestAnnotationsOfALivingPodAreRecorded(t *testing.T) {
	startRecorder(t)
	ns, node := env.Namespace(t), env.Node(t)
	set := testenv.AStatefulSet("web", 1).In(ns)
	state := testenv.APersistentPodState("web").In(ns).Prefers(100, hostname)
	for _, key := range []string{"example.com/seed", "example.com/role"} {
		state.Spec.PersistentPodAnnotations = append(state.Spec.PersistentPodAnnotations, appsv1beta1.PersistentPodAnnotation{Key: key})
	}
	env.Create(t, set.StatefulSet, state.PersistentPodState)
	pod := running(t, set, node.Name, "10.0.1.30")
	env.Annotate(t, pod, "example.com/seed", "7")
	env.Annotate(t, pod, "example.com/role", "leader")
	env.Annotate(t, pod, "example.com/other", "x")
	testenv.Eventually(t, func() error {
		state, err := env.State(t, set)
		want := map[string]string{"example.com/seed": "7", "example.com/role": "leader"}
		if diff := cmp.Diff(want, state.Status.PodStates["web-0"].Annotations); err == nil && diff != "" {
			err = fmt.Errorf("recorded annotations (-want +got):\n%s", diff)
		}
		return err
	})
}

// Each policy says how long the record of a pod lives that its StatefulSet does not want.
func TestARecordOutlivesItsPodByThePolicy(t *testing.T) {
	cases := map[string]struct {
		policy  appsv1beta1.RetentionPolicy
		kept    bool // the record outlives the pod
		expires bool // at a deadline
	}{
		"without a policy the record lives as long as the reservation": {"", true, true},
		"WhenScaled ends it":   {appsv1beta1.RetainWhenScaled, false, false},
		"WhenDeleted keeps it": {appsv1beta1.RetainWhenDeleted, true, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			startRecorder(t)
			ns, node := env.Namespace(t), env.Node(t)
			set := testenv.AStatefulSet("web", 1).In(ns)
			state := testenv.APersistentPodState("web").In(ns).Prefers(100, hostname)
			state.Spec.PersistentPodStateRetentionPolicy = tc.policy
			env.Create(t, set.StatefulSet, state.PersistentPodState)
			pod := running(t, set, node.Name, "10.0.2.9")
			recorded := func(kept, expires bool) {
				t.Helper()
				testenv.Eventually(t, func() error {
					state, err := env.State(t, set)
					record, got := state.Status.PodStates["web-0"]
					if err == nil && (got != kept || (record.ExpiresAt != nil) != expires) {
						err = fmt.Errorf("recorded %v until %v", got, record.ExpiresAt)
					}
					return err
				})
			}
			scale(t, set.StatefulSet, 0)
			env.Remove(t, pod)
			recorded(tc.kept, tc.expires)
			scale(t, set.StatefulSet, 1)
			recorded(tc.kept, false)
		})
	}
}

func scale(t *testing.T, set *appsv1.StatefulSet, replicas int32) {
	t.Helper()
	env.Patch(t, set, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

// One object holds the records of three thousand pods, and takes one more.
func TestThousandsOfRecordsAreOneObject(t *testing.T) {
	const many = 3000
	ns, home, other := env.Namespace(t), env.Node(t), env.Node(t)
	set := testenv.AStatefulSet("web", many).In(ns)
	state := testenv.APersistentPodState("web").In(ns).Prefers(100, hostname).PersistentPodState
	state.Status.PodStates = map[string]appsv1beta1.PodState{}
	for i := range many - 1 {
		state.Status.PodStates[fmt.Sprintf("web-%d", i)] = appsv1beta1.PodState{
			UID: types.UID(fmt.Sprintf("0a1b2c3d-0000-4000-8000-%012d", i)), NodeName: home.Name, RetainSeconds: 600,
			IPs: fmt.Sprintf("10.%d.%d.7,fd00:10:244:1::%x", i/250, i%250, i), NodeTopologyLabels: map[string]string{hostname: home.Name},
		}
	}
	env.Create(t, set.StatefulSet, state)
	startRecorder(t)
	pod := testenv.APod(fmt.Sprintf("web-%d", many-1)).In(ns).OwnedBy(set.StatefulSet).On(other.Name).Ready().Pod
	env.Create(t, pod)
	testenv.Eventually(t, func() error {
		state, err := env.State(t, set)
		if got := state.Status.PodStates[pod.Name]; err == nil && (got.NodeName != other.Name || len(state.Status.PodStates) != many) {
			err = fmt.Errorf("%d records, the last one %+v", len(state.Status.PodStates), got)
		}
		return err
	})
}

// Records that one object cannot hold are counted in its condition, until less is asked
// for. Each pod has nearly as much to record as the cache keeps of a pod.
func TestRecordsThatDoNotFitIntoOneObjectAreReported(t *testing.T) {
	const key, many = "example.com/blob", 90
	startRecorder(t)
	ns, node := env.Namespace(t), env.Node(t)
	set := testenv.AStatefulSet("web", many).In(ns)
	state := testenv.APersistentPodState("web").In(ns).Prefers(100, hostname).PersistentPodState
	state.Spec.PersistentPodAnnotations = []appsv1beta1.PersistentPodAnnotation{{Key: key}}
	env.Create(t, set.StatefulSet, state)
	for i := range many {
		pod := testenv.APod(fmt.Sprintf("web-%d", i)).In(ns).OwnedBy(set.StatefulSet).On(node.Name).With(key, strings.Repeat("x", 15<<10))
		env.Create(t, pod.Ready().Pod)
	}
	testenv.Eventually(t, func() error {
		env.Read(t, client.ObjectKeyFromObject(state), state)
		c, stored := meta.FindStatusCondition(state.Status.Conditions, appsv1beta1.ConditionRecording), len(state.Status.PodStates)
		if c == nil || c.Reason != appsv1beta1.ReasonRecordFull || !strings.Contains(c.Message, fmt.Sprintf("%d pods", many-stored)) || stored < many*3/4 {
			return fmt.Errorf("%d of %d records, condition %+v", stored, many, c)
		}
		return nil
	})
	env.Change(t, state, func() { state.Spec.PersistentPodAnnotations = nil })
	env.Condition(t, state, appsv1beta1.ConditionRecording, metav1.ConditionTrue, appsv1beta1.ReasonRecording, "")
	testenv.Eventually(t, func() error {
		env.Read(t, client.ObjectKeyFromObject(state), state)
		if got := len(state.Status.PodStates); got != many {
			return fmt.Errorf("%d records, want %d", got, many)
		}
		return nil
	})
}

// Of two PersistentPodStates of one target the older counts, and the younger when the
// older is gone. Two that are made in the same instant pass the webhook.
func TestTheYoungerOfTwoCountsWhenTheOtherIsGone(t *testing.T) {
	startRecorder(t)
	ns := env.Namespace(t)
	first, second := testenv.APersistentPodState("first").In(ns).Requires(hostname), testenv.APersistentPodState("second").In(ns).Requires(hostname)
	second.Spec.TargetReference.Name = "first"
	env.Create(t, first.PersistentPodState, second.PersistentPodState)
	env.Condition(t, second, appsv1beta1.ConditionRecording, metav1.ConditionFalse, appsv1beta1.ReasonTargetTaken, "first")
	env.Remove(t, first.PersistentPodState)
	env.Condition(t, second, appsv1beta1.ConditionRecording, metav1.ConditionFalse, appsv1beta1.ReasonTargetMissing, "")
}

// No pod of these namespaces is ever sent to the webhook.
func TestANamespaceWhosePodsAreNotPinnedIsReported(t *testing.T) {
	startRecorder(t)
	for _, ns := range workload.LeftOut() {
		state := testenv.APersistentPodState("left-out").In(ns).Requires(hostname)
		env.Create(t, testenv.AStatefulSet("left-out", 0).In(ns).StatefulSet, state.PersistentPodState)
		env.Condition(t, state, appsv1beta1.ConditionRecording, metav1.ConditionFalse, appsv1beta1.ReasonNamespaceLeftOut, "")
	}
}
