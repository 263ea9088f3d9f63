package creation_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

const retainAnnotation = reservation.RetainAnnotation

// recordedOn is the record of a pod's life on a node, an hour old.
func recordedOn(node testenv.Node, ip string) appsv1beta1.PodState {
	return appsv1beta1.PodState{
		UID: types.UID("life-on-" + node.Name), NodeName: node.Name, IPs: ip, RetainSeconds: 600,
		RecordedAt:         &metav1.Time{Time: time.Now().Add(-time.Hour)},
		NodeTopologyLabels: map[string]string{hostname: node.Name},
	}
}

// putNode makes a Ready node that the webhooks know.
func putNode(t *testing.T) testenv.Node {
	t.Helper()
	node := testenv.ANode(env.Name("node"))
	put(t, node.Node)
	return node
}

// putState makes a StatefulSet, and a PersistentPodState that prefers the pods' nodes,
// with these records.
func putState(t *testing.T, records map[string]appsv1beta1.PodState) testenv.StatefulSet {
	t.Helper()
	set := testenv.AStatefulSet("web", 2).In(env.Namespace(t))
	putStateOf(t, set, records)
	return set
}

func putStateOf(t *testing.T, set testenv.StatefulSet, records map[string]appsv1beta1.PodState) {
	t.Helper()
	put(t, set.StatefulSet)
	putStateOfOnly(t, set, records)
}

// putStateOfOnly is putStateOf for a StatefulSet that exists.
func putStateOfOnly(t *testing.T, set testenv.StatefulSet, records map[string]appsv1beta1.PodState) {
	t.Helper()
	state := testenv.APersistentPodState("web").In(set.Namespace).Prefers(100, hostname).PersistentPodState
	for _, key := range []string{"example.com/seed", "example.com/role"} {
		state.Spec.PersistentPodAnnotations = append(state.Spec.PersistentPodAnnotations, appsv1beta1.PersistentPodAnnotation{Key: key})
	}
	state.Status.PodStates = records
	put(t, state)
}

// nextOf begins the first pod of a StatefulSet, which asks to keep its address.
func nextOf(set testenv.StatefulSet) testenv.Pod {
	return testenv.APod("web-0").In(set.Namespace).OwnedBy(set.StatefulSet).With(retainAnnotation, "10")
}

// formerOn is a pod that the API server has no more, as its node remembers it. No replica has
// seen such a pod; see lived.
func formerOn(set testenv.StatefulSet, node testenv.Node, ip string) *corev1.Pod {
	pod := nextOf(set).On(node.Name).At(ip).Pod
	pod.UID = types.UID("life-on-" + node.Name)
	return pod
}

func annotated(t *testing.T, pod *corev1.Pod, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for key := range want {
		got[key] = pod.Annotations[key]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

func TestARebuiltPodIsPinnedToItsNode(t *testing.T) {
	node := putNode(t)
	set := putState(t, map[string]appsv1beta1.PodState{"web-0": recordedOn(node, "10.0.1.5")})
	pod := admitted(t, nextOf(set).Pod)
	annotated(t, pod, map[string]string{appsv1beta1.AnnotationInjected: "web", pin.AnnotationNode: node.Name, pin.AnnotationUnpinned: ""})
	want := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: hostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node.Name}},
			}},
		}},
	}}
	if diff := cmp.Diff(want, pod.Spec.Affinity); diff != "" {
		t.Errorf("affinity (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.PodSchedulingGate{{Name: pin.Gate}}, pod.Spec.SchedulingGates); diff != "" {
		t.Errorf("gates, of which a nomination opens ours (-want +got):\n%s", diff)
	}
}

// A pod gets back the annotations that its predecessor got while it lived, and loses those
// of a plan that its template was copied with. Others are in no record, unless it is forged.
func TestAnnotationsOfAPodArePutBack(t *testing.T) {
	node := putNode(t)
	record := recordedOn(node, "10.0.1.30")
	record.Annotations = map[string]string{"example.com/seed": "7", "example.com/role": "leader", "k8s.v1.cni.cncf.io/networks": "forged"}
	set := putState(t, map[string]appsv1beta1.PodState{"web-0": record})
	pod := admitted(t, nextOf(set).With("example.com/role", "follower").
		With(appsv1beta1.AnnotationInjected, "other").With(podpatch.AnnotationPlace, hostname+"=gone").Pod)
	annotated(t, pod, map[string]string{
		"example.com/seed": "7", "example.com/role": "follower", appsv1beta1.AnnotationInjected: "web", podpatch.AnnotationPlace: "",
		"k8s.v1.cni.cncf.io/networks": "",
	})
}

// A client that asks about a pod of another namespace does not know the UID of the
// StatefulSet, and is not told where the pod was.
func TestAForgedOwnerLearnsNothing(t *testing.T) {
	node := putNode(t)
	record := recordedOn(node, "10.0.1.5")
	record.Annotations = map[string]string{"example.com/seed": "7"}
	set := putState(t, map[string]appsv1beta1.PodState{"web-0": record})
	put(t, testenv.AReservation(formerOn(set, node, "10.0.1.5"), time.Now()))
	for name, forged := range map[string]*appsv1.StatefulSet{
		"another UID": {ObjectMeta: metav1.ObjectMeta{Name: set.Name, Namespace: set.Namespace, UID: "forged"}},
		"no UID":      {ObjectMeta: metav1.ObjectMeta{Name: set.Name, Namespace: set.Namespace, UID: " "}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, options := range [][]client.CreateOption{nil, {client.DryRunAll}} {
				pod := testenv.APod("web-0").In(set.Namespace).OwnedBy(forged).With(retainAnnotation, "10").Pod
				if err := env.Client.Create(t.Context(), pod, options...); err != nil {
					t.Fatal(err)
				}
				if options == nil {
					env.Remove(t, pod)
				}
				annotated(t, pod, map[string]string{
					appsv1beta1.AnnotationInjected: "", pin.AnnotationNode: "", pin.AnnotationFormer: "", "example.com/seed": "",
				})
				if pod.Spec.Affinity != nil {
					t.Errorf("affinity %v, want none", pod.Spec.Affinity)
				}
			}
		})
	}
	annotated(t, admitted(t, nextOf(set).Pod), map[string]string{pin.AnnotationNode: node.Name, "example.com/seed": "7"})
}

// A pod was deleted before it was Ready, so that only the node's agent knows of it.
func TestAPodThatWasNeverReadyReturnsToItsAddresses(t *testing.T) {
	node, set := putNode(t), putState(t, nil)
	put(t, testenv.AReservation(lived(t, nextOf(set).On(node.Name).At("10.0.2.40").Pod), time.Now()))
	pod := admitted(t, nextOf(set).Pod)
	annotated(t, pod, map[string]string{pin.AnnotationNode: node.Name, pin.AnnotationRecalled: node.Name, pin.AnnotationUnpinned: ""})
}

// A pod moved while no replica recorded. The node that holds the addresses of a later life
// than the recorded one tells where the pod was.
func TestAPodThatMovedUnseenIsKnownByItsAddresses(t *testing.T) {
	before, after := putNode(t), putNode(t)
	set := putState(t, map[string]appsv1beta1.PodState{"web-0": recordedOn(before, "10.0.1.9")})
	put(t, testenv.AReservation(lived(t, nextOf(set).On(after.Name).At("10.0.2.9").Pod), time.Now()))
	annotated(t, admitted(t, nextOf(set).Pod), map[string]string{pin.AnnotationNode: after.Name, pin.AnnotationRecalled: after.Name})
}

// A pod ran on another node than before, which shows nothing: its agent was away, or what
// it showed was deleted. The former node keeps the addresses of the former life. The pod
// returns to where it was Ready last.
func TestANodeThatKeepsAFormerLifeOverrulesNoRecord(t *testing.T) {
	cases := map[string]time.Duration{ // from the move to the end of the former life
		"which ended before":                      -time.Minute,
		"which ended late, on a silent node":      time.Minute,
		"which ended late, long after its return": time.Hour,
	}
	for name, late := range cases {
		t.Run(name, func(t *testing.T) {
			former, last := putNode(t), putNode(t)
			record, set := recordedOn(last, "10.0.2.9"), testenv.AStatefulSet("web", 2).In(env.Namespace(t))
			pod := lived(t, nextOf(set).On(former.Name).At("10.0.1.9").Pod)
			record.RecordedAt, record.FormerUIDs = &metav1.Time{Time: time.Now()}, []types.UID{pod.UID}
			putStateOf(t, set, map[string]appsv1beta1.PodState{"web-0": record})
			put(t, testenv.AReservation(pod, time.Now().Add(late)))
			annotated(t, admitted(t, nextOf(set).Pod), map[string]string{pin.AnnotationNode: last.Name, pin.AnnotationRecalled: ""})
		})
	}
}

// A pod is sent elsewhere whose node has no address left, unless the node holds its own.
func TestANodeWithoutAnAddressLeftIsNotAskedFor(t *testing.T) {
	node := putNode(t)
	set := putState(t, map[string]appsv1beta1.PodState{"web-0": recordedOn(node, "10.0.9.2")})
	put(t, &limpetv1alpha1.NodeIPPool{
		ObjectMeta: metav1.ObjectMeta{Name: "net." + node.Name},
		Status:     limpetv1alpha1.NodeIPPoolStatus{Node: node.Name, Network: "net", Total: 6, Attached: 6},
	})
	pod := admitted(t, nextOf(set).Pod)
	annotated(t, pod, map[string]string{pin.AnnotationNode: "", pin.AnnotationUnpinned: pin.ReasonNodeOutOfIPs})
	if len(pod.Spec.SchedulingGates) > 0 {
		t.Errorf("gates %v, want none", pod.Spec.SchedulingGates)
	}
	env.Remove(t, pod)
	put(t, testenv.AReservation(formerOn(set, node, "10.0.9.2"), time.Now()))
	annotated(t, admitted(t, nextOf(set).Pod), map[string]string{pin.AnnotationNode: node.Name, pin.AnnotationUnpinned: ""})
}

// A StatefulSet is deleted and applied again. Its first pod is there as soon as it is, and
// returns all the same.
func TestAPodReturnsToAStatefulSetThatIsAppliedAgain(t *testing.T) {
	cases := map[string]struct {
		state bool // there is one
		owned bool // by the former StatefulSet
	}{
		"before the collector came":          {true, true},
		"with --cascade=orphan":              {true, false},
		"after the record was collected too": {false, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			node, ns := putNode(t), env.Namespace(t)
			set := testenv.AStatefulSet("web", 1).In(ns).
				With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationPreferredTopology, hostname)
			former := lived(t, nextOf(set).On(node.Name).At("10.0.2.9").Pod)
			put(t, testenv.AReservation(former, time.Now()))
			want := map[string]string{pin.AnnotationNode: node.Name}
			state := testenv.APersistentPodState("web").In(ns).Prefers(100, hostname).PersistentPodState
			state.Status.PodStates = map[string]appsv1beta1.PodState{"web-0": recordedOn(node, "10.0.2.9")}
			if tc.owned {
				state.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", UID: "former", Controller: new(true)}}
			}
			if tc.state {
				put(t, state)
			} else {
				want[pin.AnnotationRecalled], want[pin.AnnotationFormer] = node.Name, string(former.UID)+" 10.0.2.9"
			}
			env.Create(t, set.StatefulSet)
			annotated(t, admitted(t, nextOf(set).Pod), want)
		})
	}
}

func TestAPodIsPinnedFromAnObjectOfThousandsOfRecords(t *testing.T) {
	const many = 3000
	home, other := putNode(t), putNode(t)
	records := map[string]appsv1beta1.PodState{}
	for i := range many {
		records[fmt.Sprintf("web-%d", i)] = recordedOn(home, fmt.Sprintf("10.%d.%d.7,fd00:10:244:1::%x", i/250, i%250, i))
	}
	records[fmt.Sprintf("web-%d", many-1)] = recordedOn(other, "10.0.2.9")
	set := putState(t, records)
	for name, node := range map[string]string{"web-1500": home.Name, "web-2999": other.Name} {
		pod := nextOf(set).Pod
		pod.Name = name
		annotated(t, admitted(t, pod), map[string]string{pin.AnnotationNode: node})
	}
}
