package reconcile_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

const unschedulable = "0/1 nodes are available: 1 node(s) were unschedulable."

// requiring makes a StatefulSet of one pod, and a PersistentPodState that requires the
// pod's node.
func requiring(t *testing.T) (testenv.StatefulSet, *appsv1beta1.PersistentPodState) {
	t.Helper()
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 1).In(ns)
	state := testenv.APersistentPodState("web").In(ns).Requires(hostname).PersistentPodState
	env.Create(t, set.StatefulSet, state)
	return set, state
}

// heldTo makes a pod as the webhook makes one whose node is required, and as a scheduler
// leaves one that no node takes.
func heldTo(t *testing.T, set testenv.StatefulSet, node, refusal string, annotations ...string) *corev1.Pod {
	t.Helper()
	annotations = append([]string{appsv1beta1.AnnotationInjected, "web", podpatch.AnnotationPlace, hostname + "=" + node}, annotations...)
	pod := podOf(set, annotations...).Refused(refusal).Pod
	env.Create(t, pod)
	return pod
}

func waits(t *testing.T, set testenv.StatefulSet, reason string) {
	t.Helper()
	env.Condition(t, set, appsv1beta1.ConditionWaiting, metav1.ConditionTrue, reason, "")
}

func noneWaits(t *testing.T, set testenv.StatefulSet) {
	t.Helper()
	env.Condition(t, set, appsv1beta1.ConditionWaiting, metav1.ConditionFalse, appsv1beta1.ReasonNoneWaits, "")
}

func isDeleted(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); !apierrors.IsNotFound(err) {
			return fmt.Errorf("get pod: %w, want it released", err)
		}
		return nil
	})
}

// A pod waits for a required node that cannot take it: never silently, and for as long as
// its user wants.
func TestAPodWaitsForItsRequiredNode(t *testing.T) {
	cases := map[string]struct {
		key, value string
		forgotten  bool // the PersistentPodState is deleted and created again before
	}{
		"until its node suffers a fate to go for":                        {pin.AnnotationReleaseOn, "deleted,cordoned", false},
		"until its time is over":                                         {pin.AnnotationReleaseAfter, "1s", false},
		"until a node that only its addresses told of suffers that fate": {pin.AnnotationReleaseOn, "deleted,cordoned", true},
		"until its time is over, though only its addresses told of it":   {pin.AnnotationReleaseAfter, "1s", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			startRecorder(t)
			node := env.Node(t)
			set, state := requiring(t)
			pod := running(t, set, node.Name, "10.0.3.9")
			env.Cordon(t, node.Node)
			env.Remove(t, pod)
			var recalled []string
			if tc.forgotten {
				env.Remove(t, state)
				state = testenv.APersistentPodState("web").In(set.Namespace).Requires(hostname).PersistentPodState
				env.Create(t, state)
				recalled = []string{pin.AnnotationRecalled, node.Name, pin.AnnotationFormer, string(pod.UID) + " 10.0.3.9"}
			}
			pod = heldTo(t, set, node.Name, unschedulable, recalled...)
			waits(t, set, pin.ReasonNodeCordoned)
			env.Told(t, pod, pin.ReasonWaiting, "kubectl uncordon ")

			env.Annotate(t, state, tc.key, tc.value)
			isDeleted(t, pod)
			noneWaits(t, set)
			if env.MustState(t, set).Status.PodStates["web-0"].ReleasedAt == nil {
				t.Error("the record does not tell the webhook that the next pod may go elsewhere")
			}
		})
	}
}

// Other keys are required while a pod waits for its node, which was not recorded with
// them. The pod is released from its node, and the next one is held to the new place.
func TestAPodThatWaitsIsHeldToTheKeysThatAreRequiredNow(t *testing.T) {
	const rack = "example.com/rack"
	startRecorder(t)
	name := env.Name("node")
	node := testenv.ANode(name).Labelled(rack, name)
	env.Create(t, node.Node)
	set, state := requiring(t)
	pod := running(t, set, name, "10.0.3.9")
	env.Cordon(t, node.Node)
	env.Remove(t, pod)
	pod = heldTo(t, set, name, unschedulable)
	waits(t, set, pin.ReasonNodeCordoned)
	env.Change(t, state, func() { state.Spec.RequiredPersistentTopology.Keys = []string{rack} })
	noneWaits(t, set)
	isDeleted(t, pod)
	record := env.MustState(t, set).Status.PodStates["web-0"]
	if record.NodeTopologyLabels[rack] != name || record.ReleasedAt != nil {
		t.Errorf("record %+v, want the next pod held to %s=%s", record, rack, name)
	}
}

func TestAPodThatWaitsIsToldOfTheDeletionOfItsPersistentPodState(t *testing.T) {
	startRecorder(t)
	node := env.Node(t)
	set, state := requiring(t)
	pod := running(t, set, node.Name, "10.0.3.9")
	env.Cordon(t, node.Node)
	env.Remove(t, pod)
	pod = heldTo(t, set, node.Name, unschedulable)
	waits(t, set, pin.ReasonNodeCordoned)
	env.Remove(t, state)
	env.Told(t, pod, pin.ReasonWaiting, "PersistentPodState web, which required it")
}
