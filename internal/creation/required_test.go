package creation_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// putRequired makes a StatefulSet, and a PersistentPodState that requires the pods' nodes
// by some keys, with the record of the first pod if there is one.
func putRequired(t *testing.T, record *appsv1beta1.PodState, keys ...string) testenv.StatefulSet {
	t.Helper()
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 1).In(ns)
	state := testenv.APersistentPodState("web").In(ns).Requires(keys...).PersistentPodState
	if record != nil {
		state.Status.PodStates = map[string]appsv1beta1.PodState{"web-0": *record}
	}
	put(t, set.StatefulSet, state)
	return set
}

// heldTo wants the next pod of a StatefulSet to require exactly one label of its node.
func heldTo(t *testing.T, set testenv.StatefulSet, key, value string) *corev1.Pod {
	t.Helper()
	pod := admitted(t, nextOf(set).Pod)
	annotated(t, pod, map[string]string{appsv1beta1.AnnotationInjected: "web", podpatch.AnnotationPlace: key + "=" + value})
	want := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}},
		}}},
	}}}
	if diff := cmp.Diff(want, pod.Spec.Affinity); diff != "" {
		t.Errorf("affinity (-want +got):\n%s", diff)
	}
	return pod
}

// The node of a pod is required, and takes no pods.
func TestAPodIsHeldToItsRequiredNode(t *testing.T) {
	node := testenv.ANode(env.Name("node")).Cordoned()
	put(t, node.Node)
	record := recordedOn(node, "10.0.3.9")
	heldTo(t, putRequired(t, &record, hostname), hostname, node.Name)
}

// The PersistentPodState was deleted and created again, so that only the addresses tell of
// the node.
func TestAPodIsHeldToTheNodeThatHoldsItsAddresses(t *testing.T) {
	node := testenv.ANode(env.Name("node")).Cordoned()
	put(t, node.Node)
	set := putRequired(t, nil, hostname)
	former := lived(t, nextOf(set).On(node.Name).At("10.0.3.9").Pod)
	put(t, testenv.AReservation(former, time.Now()))
	pod := heldTo(t, set, hostname, node.Name)
	annotated(t, pod, map[string]string{pin.AnnotationRecalled: node.Name, pin.AnnotationFormer: string(former.UID) + " 10.0.3.9"})
}

// The keys that are required are others than when the pod was recorded, and the recorder
// has added their labels to the record.
func TestAPodIsHeldToTheKeysThatAreRequiredNow(t *testing.T) {
	const rack = "example.com/rack"
	node := testenv.ANode(env.Name("node")).Labelled(rack, "r1").Cordoned()
	put(t, node.Node)
	record := recordedOn(node, "10.0.3.9")
	record.NodeTopologyLabels[rack] = "r1"
	heldTo(t, putRequired(t, &record, rack), rack, "r1")
}

// The predecessor of a pod waited for its node, and was released.
func TestAPodThatWasLetGoMayGoElsewhere(t *testing.T) {
	node := testenv.ANode(env.Name("node")).Cordoned()
	put(t, node.Node)
	record, now := recordedOn(node, "10.0.3.9"), metav1.Now()
	record.ReleasedAt, record.Waiting = &now, &appsv1beta1.Waiting{Since: now, Reason: pin.ReasonNodeCordoned}
	pod := admitted(t, nextOf(putRequired(t, &record, hostname)).Pod)
	annotated(t, pod, map[string]string{podpatch.AnnotationPlace: ""})
	if pod.Spec.Affinity != nil {
		t.Errorf("affinity %v, want none", pod.Spec.Affinity)
	}
}
