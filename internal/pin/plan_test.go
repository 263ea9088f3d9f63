package pin_test

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

const (
	hostname = corev1.LabelHostname
	zone     = corev1.LabelTopologyZone
)

var home = map[string]string{hostname: "n1", zone: "a"}

func in(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

func preferred(weight int32, reqs ...corev1.NodeSelectorRequirement) corev1.PreferredSchedulingTerm {
	return corev1.PreferredSchedulingTerm{Weight: weight, Preference: corev1.NodeSelectorTerm{MatchExpressions: reqs}}
}

// pools have so many addresses left each.
func pools(free ...int64) []limpetv1alpha1.NodeIPPool {
	out := make([]limpetv1alpha1.NodeIPPool, len(free))
	for i := range out {
		out[i].Status = limpetv1alpha1.NodeIPPoolStatus{Node: "n1", Total: 254, Free: free[i]}
	}
	return out
}

func TestPlan(t *testing.T) {
	state := testenv.APersistentPodState("web").Prefers(100, hostname).Prefers(7, zone, "missing").
		Recorded("web-0", "n1", home).PersistentPodState
	strict := testenv.APersistentPodState("web").Requires(zone).Recorded("web-0", "n1", home).PersistentPodState
	impatient := strict.DeepCopy()
	impatient.Annotations = map[string]string{pin.AnnotationReleaseOn: "deleted"}
	released := strict.DeepCopy()
	released.Status.PodStates["web-0"] = appsv1beta1.PodState{
		NodeName: "n1", NodeTopologyLabels: home, ReleasedAt: &metav1.Time{Time: now},
	}
	reworded := strict.DeepCopy()
	reworded.Status.PodStates["web-0"] = appsv1beta1.PodState{NodeName: "n1", NodeTopologyLabels: map[string]string{hostname: "n1"}}
	annotated := state.DeepCopy()
	for _, key := range []string{"mine", "lost", "never", podpatch.AnnotationPlace} {
		annotated.Spec.PersistentPodAnnotations = append(annotated.Spec.PersistentPodAnnotations, appsv1beta1.PersistentPodAnnotation{Key: key})
	}
	annotated.Status.PodStates["web-0"] = appsv1beta1.PodState{
		NodeName: "n1", NodeTopologyLabels: home, Annotations: map[string]string{"mine": "old", "lost": "kept", podpatch.AnnotationPlace: "k=v", "unnamed": "forged"},
	}
	elsewhere := testenv.APod("web-0")
	elsewhere.Spec.NodeSelector = map[string]string{zone: "b"}
	either := testenv.APod("web-0")
	either.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{in(zone, "b")}},
			{MatchExpressions: []corev1.NodeSelectorRequirement{in(zone, "a", "c")}},
		}},
	}}
	tolerant := testenv.APod("web-0")
	tolerant.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}

	placed := testenv.APod("web-0")
	placed.Spec.NodeName = "n3"
	other := testenv.APod("web-0")
	other.Spec.NodeSelector = map[string]string{hostname: "n2"}

	injected := map[string]string{appsv1beta1.AnnotationInjected: "web"}
	nominated := map[string]string{appsv1beta1.AnnotationInjected: "web", pin.AnnotationNode: "n1"}
	all := podpatch.Patch{
		Annotations: nominated,
		Gates:       []string{pin.Gate},
		Preferred:   []corev1.PreferredSchedulingTerm{preferred(100, in(hostname, "n1")), preferred(7, in(zone, "a"))},
	}
	unpinned := func(reason string) map[string]string {
		return map[string]string{appsv1beta1.AnnotationInjected: "web", pin.AnnotationUnpinned: reason}
	}
	away := func(reason string) podpatch.Patch {
		return podpatch.Patch{Annotations: unpinned(reason), Preferred: all.Preferred[1:]}
	}
	held := func(annotations map[string]string) map[string]string {
		annotations = maps.Clone(annotations)
		annotations[podpatch.AnnotationPlace] = zone + "=a"
		return annotations
	}
	zoned := podpatch.Patch{Annotations: held(injected), Required: []corev1.NodeSelectorRequirement{in(zone, "a")}}

	cases := map[string]struct {
		in         pin.Input
		wantReason string
		want       podpatch.Patch
	}{
		"a pod without a PersistentPodState is left": {
			in: pin.Input{Pod: testenv.APod("web-0").Pod}, wantReason: pin.ReasonNoState,
		},
		"a pod without a record is left": {
			in: pin.Input{Pod: testenv.APod("web-1").Pod, State: state}, wantReason: pin.ReasonNoRecord,
		},
		"a recorded pod prefers what was recorded, each item with its weight": {
			in:         pin.Input{Pod: testenv.APod("web-0").Pod, State: state, Node: testenv.ANode("n1").Node},
			wantReason: pin.ReasonPinned, want: all,
		},
		"the node is not preferred when it is gone": {
			in:         pin.Input{Pod: testenv.APod("web-0").Pod, State: state},
			wantReason: pin.ReasonNodeGone, want: away(pin.ReasonNodeGone),
		},
		"the node is not preferred while it is cordoned": {
			in:         pin.Input{Pod: testenv.APod("web-0").Pod, State: state, Node: testenv.ANode("n1").Cordoned().Node},
			wantReason: pin.ReasonNodeCordoned, want: away(pin.ReasonNodeCordoned),
		},
		"the node is not preferred while it is not ready": {
			in:         pin.Input{Pod: testenv.APod("web-0").Pod, State: state, Node: testenv.ANode("n1").NotReady().Node},
			wantReason: pin.ReasonNodeNotReady, want: away(pin.ReasonNodeNotReady),
		},
		"the node is nominated although it has said for some seconds that it is not ready": {
			in: pin.Input{
				Pod: testenv.APod("web-0").Pod, State: state, Now: time.Unix(100, 0),
				Node: testenv.ANode("n1").Tainted(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule).Saying(corev1.ConditionFalse, time.Unix(81, 0)).Node,
			},
			wantReason: pin.ReasonPinned, want: all,
		},
		"the node is nominated when it is ready again and Kubernetes has left its taint": {
			in: pin.Input{
				Pod: testenv.APod("web-0").Pod, State: state,
				Node: testenv.ANode("n1").Tainted(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule).Node,
			},
			wantReason: pin.ReasonPinned, want: all,
		},
		"the node is not preferred with a taint": {
			in: pin.Input{
				Pod: testenv.APod("web-0").Pod, State: state,
				Node: testenv.ANode("n1").Tainted(corev1.TaintNodeOutOfService, corev1.TaintEffectNoExecute).Node,
			},
			wantReason: pin.ReasonNodeTainted, want: away(pin.ReasonNodeTainted),
		},
		"the node is not preferred without an address left": {
			in:         pin.Input{Pod: testenv.APod("web-0").Pod, State: state, Node: testenv.ANode("n1").Node, Pools: pools(0)},
			wantReason: pin.ReasonNodeOutOfIPs, want: away(pin.ReasonNodeOutOfIPs),
		},
		"a node that holds the pod's address needs no other": {
			in:         pin.Input{Pod: testenv.APod("web-0").Pod, State: state, Node: testenv.ANode("n1").Node, Pools: pools(0), Retains: true, Holds: true},
			wantReason: pin.ReasonPinned, want: all,
		},
		"one address left is enough": {
			in:         pin.Input{Pod: testenv.APod("web-0").Pod, State: state, Node: testenv.ANode("n1").Node, Pools: pools(1)},
			wantReason: pin.ReasonPinned, want: all,
		},
		"a soft taint changes nothing": {
			in: pin.Input{
				Pod: testenv.APod("web-0").Pod, State: state,
				Node: testenv.ANode("n1").Tainted("soft", corev1.TaintEffectPreferNoSchedule).Node,
			},
			wantReason: pin.ReasonPinned, want: all,
		},
		"a pod that tolerates everything returns to a cordoned node": {
			in: pin.Input{
				Pod: tolerant.Pod, State: state,
				Node: testenv.ANode("n1").Cordoned().Tainted("k", corev1.TaintEffectNoSchedule).Node,
			},
			wantReason: pin.ReasonPinned, want: all,
		},
		"a key that is required since the pod was recorded is read from its node": {
			in:         pin.Input{Pod: testenv.APod("web-0").Pod, State: reworded, Node: testenv.ANode("n1").Labelled(zone, "a").Node},
			wantReason: pin.ReasonPinned, want: zoned,
		},
		"a required place stays though the node is gone": {
			in:         pin.Input{Pod: testenv.APod("web-0").Pod, State: strict},
			wantReason: pin.ReasonNodeGone,
			want:       podpatch.Patch{Annotations: held(unpinned(pin.ReasonNodeGone)), Required: zoned.Required},
		},
		"a required place is released when no node of it is one to wait for": {
			in:         pin.Input{Pod: testenv.APod("web-0").Pod, State: impatient, Cluster: []*corev1.Node{testenv.ANode("n2").Node}},
			wantReason: pin.ReasonNodeGone, want: podpatch.Patch{Annotations: unpinned(pin.ReasonNodeGone)},
		},
		"a required place is not released while another node is in it": {
			in:         pin.Input{Pod: testenv.APod("web-0").Pod, State: impatient, Cluster: []*corev1.Node{testenv.ANode("n2").Labelled(zone, "a").Node}},
			wantReason: pin.ReasonNodeGone,
			want:       podpatch.Patch{Annotations: held(unpinned(pin.ReasonNodeGone)), Required: zoned.Required},
		},
		"a pod that was released still tries its node first": {
			in:         pin.Input{Pod: testenv.APod("web-0").Pod, State: released, Node: testenv.ANode("n1").Node, Retains: true},
			wantReason: pin.ReasonPinned, want: podpatch.Patch{Annotations: nominated, Gates: all.Gates},
		},
		"the pod's own selector wins over a required place": {
			in:         pin.Input{Pod: elsewhere.Pod, State: strict, Node: testenv.ANode("n1").Node},
			wantReason: pin.ReasonPodElsewhere, want: podpatch.Patch{Annotations: unpinned(pin.ReasonPodElsewhere)},
		},
		"one fitting alternative of the pod's own affinity is enough": {
			in:         pin.Input{Pod: either.Pod, State: strict, Node: testenv.ANode("n1").Labelled(zone, "a").Node},
			wantReason: pin.ReasonPinned, want: zoned,
		},
		"recorded annotations that the spec names are put back unless the pod sets them": {
			in: pin.Input{
				Pod: testenv.APod("web-0").With("mine", "new").Pod, State: annotated, Node: testenv.ANode("n1").Node,
			},
			wantReason: pin.ReasonPinned,
			want: podpatch.Patch{
				Annotations: map[string]string{appsv1beta1.AnnotationInjected: "web", pin.AnnotationNode: "n1", "lost": "kept"},
				Gates:       all.Gates,
				Preferred:   all.Preferred,
			},
		},
		"a pod that asks for its address returns to its node, not just to its zone": {
			in: pin.Input{
				Pod: testenv.APod("web-0").Pod, State: strict, Node: testenv.ANode("n1").Node, Retains: true,
			},
			wantReason: pin.ReasonPinned,
			want:       podpatch.Patch{Annotations: held(nominated), Gates: all.Gates, Required: zoned.Required},
		},
		"a pod that is put on a node by hand is not gated": {
			in:         pin.Input{Pod: placed.Pod, State: state, Node: testenv.ANode("n1").Node},
			wantReason: pin.ReasonPinned, want: podpatch.Patch{Annotations: injected, Preferred: all.Preferred},
		},
		"a pod that asks for another node is not gated": {
			in:         pin.Input{Pod: other.Pod, State: state, Node: testenv.ANode("n1").Node},
			wantReason: pin.ReasonPodElsewhere, want: away(pin.ReasonPodElsewhere),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.in.Pod.DeepCopy()
			got := pin.Plan(tc.in)
			if got.Reason != tc.wantReason {
				t.Errorf("reason %s (%s), want %s", got.Reason, got.Message, tc.wantReason)
			}
			if diff := cmp.Diff(tc.want, got.Patch, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("patch (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tc.in.Pod); diff != "" {
				t.Errorf("the pod was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// A template that was copied from a living pod says what Plan once gave to that one.
func TestPlanDropsWhatItDidNotGive(t *testing.T) {
	copied := testenv.APod("web-0").With(appsv1beta1.AnnotationInjected, "other").With(pin.AnnotationNode, "n9").
		With(podpatch.AnnotationPlace, hostname+"=n9").With(pin.AnnotationRecalled, "n9").With(pin.AnnotationUnpinned, pin.ReasonNodeGone).With("mine", "1")
	strict := testenv.APersistentPodState("web").Requires(hostname).Recorded("web-0", "n1", home).PersistentPodState
	all := []string{appsv1beta1.AnnotationInjected, pin.AnnotationNode, podpatch.AnnotationPlace, pin.AnnotationRecalled, pin.AnnotationUnpinned}
	cases := map[string]struct {
		state *appsv1beta1.PersistentPodState
		node  *corev1.Node
		want  []string
		gives map[string]string
	}{
		"of a workload without a PersistentPodState": {nil, nil, all, nil},
		"of a pod that is not recorded":              {testenv.APersistentPodState("web").PersistentPodState, nil, all, nil},
		"of a pod that returns": {
			strict, testenv.ANode("n1").Node,
			[]string{pin.AnnotationRecalled, pin.AnnotationUnpinned},
			map[string]string{appsv1beta1.AnnotationInjected: "web", pin.AnnotationNode: "n1", podpatch.AnnotationPlace: hostname + "=n1"},
		},
		"of a pod that cannot return": {
			strict, nil,
			[]string{pin.AnnotationNode, pin.AnnotationRecalled},
			map[string]string{appsv1beta1.AnnotationInjected: "web", podpatch.AnnotationPlace: hostname + "=n1", pin.AnnotationUnpinned: pin.ReasonNodeGone},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := pin.Plan(pin.Input{Pod: copied.Pod, State: tc.state, Node: tc.node}).Patch
			if diff := cmp.Diff(tc.want, got.Drop); diff != "" {
				t.Errorf("dropped (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.gives, got.Annotations); diff != "" {
				t.Errorf("given (-want +got):\n%s", diff)
			}
		})
	}
}
