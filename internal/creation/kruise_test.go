package creation_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// The pods of an Advanced StatefulSet keep node and addresses when they are recreated, and through
// a rollout. What OpenKruise writes onto them stays.
func TestPodsOfAnAdvancedStatefulSetReturn(t *testing.T) {
	node := putNode(t)
	env.ServeKinds(t)
	ns := env.Namespace(t)
	set := env.OfKind(t, testenv.KruiseSets, ns, "web", map[string]any{"replicas": int64(1), "podManagementPolicy": "Parallel"})
	state := asking(ns, "web", testenv.KruiseSets)
	put(t, state)
	next := func(revision string) testenv.Pod {
		pod := testenv.APod("web-0").Of(set, testenv.KruiseSets).With(retainAnnotation, "10")
		testenv.OfKruise(pod.Pod, revision)
		return pod
	}
	former := lived(t, next("first").On(node.Name).At("10.0.1.5").Pod)
	put(t, testenv.AReservation(former, time.Now()))
	env.Change(t, state, func() {
		state.Status.PodStates = map[string]appsv1beta1.PodState{"web-0": recordedOn(node, "10.0.1.5")}
	})
	for _, revision := range []string{"first", "second"} {
		pod := next(revision).Pod
		testenv.Eventually(t, func() error { // the caches are filled a moment later
			probe := pod.DeepCopy()
			if err := env.Client.Create(t.Context(), probe, client.DryRunAll); err != nil || probe.Annotations[pin.AnnotationNode] != node.Name {
				return fmt.Errorf("annotations %v, %w", probe.Annotations, err)
			}
			return nil
		})
		admitted(t, pod)
		testenv.KeepsKruise(t, pod, revision)
		if former := pod.Annotations[pin.AnnotationFormer]; former == "" || !pin.Gated(pod) || pod.Annotations[appsv1beta1.AnnotationInjected] != "web" {
			t.Errorf("revision %s: annotations %v, gates %v", revision, pod.Annotations, pod.Spec.SchedulingGates)
		}
		env.Remove(t, pod)
	}
}

// The pods of a CloneSet are spread as one revision, as OpenKruise does. A pod that OpenKruise was
// told to delete has its slot until it terminates.
func TestPodsOfACloneSetAreSpread(t *testing.T) {
	serve(t)
	env.ServeKind(t, testenv.CloneSets)
	ns := env.Namespace(t)
	set := env.OfKind(t, testenv.CloneSets, ns, "web", map[string]any{"replicas": int64(4)})
	env.Create(t, aSpread(ns, "web", "apps.kruise.io/v1alpha1", "CloneSet", "web", "a=1", "b=1", "c"))
	of := func(name, revision string) *corev1.Pod {
		return testenv.OfKruise(testenv.APod(name).Of(set, testenv.CloneSets).Pod, revision)
	}
	sent(t, of("probe", "first"))
	pods := placed(t, "a b c c", of("web-1", "first"), of("web-2", "second"), of("web-3", "first"), of("web-4", "second"))
	for i, revision := range []string{"first", "second", "first", "second"} {
		testenv.KeepsKruise(t, pods[i], revision)
		if n := len(pods[i].Annotations) - len(of("", revision).Annotations); n != 1 {
			t.Errorf("pod %s has %d annotations of Limpet: %v", pods[i].Name, n, pods[i].Annotations)
		}
	}
	env.Remove(t, pods[0])
	foreseen(t, "a", of("web-5", "second"))
	placed(t, "a", of("web-5", "second"))
}

// An Advanced StatefulSet is spread by ordinal, with the ordinals that it leaves out, and its
// recorded nodes decide.
func TestAnAdvancedStatefulSetIsSpreadByOrdinal(t *testing.T) {
	serve(t)
	env.ServeKinds(t)
	ns := env.Namespace(t)
	inA := testenv.ANode(env.Name("zone-a")).Labelled(corev1.LabelTopologyZone, "a")
	inB := testenv.ANode(env.Name("zone-b")).Labelled(corev1.LabelTopologyZone, "b")
	put(t, inA.Node, inB.Node)
	set := env.OfKind(t, testenv.KruiseSets, ns, "web", map[string]any{"replicas": int64(3), "reserveOrdinals": []any{int64(1)}})
	state := asking(ns, "web", testenv.KruiseSets)
	state.Status.PodStates = map[string]appsv1beta1.PodState{"web-3": recordedOn(inA, "10.0.1.5")}
	put(t, state)
	env.Create(t, aSpread(ns, "web", "apps.kruise.io/v1beta1", "StatefulSet", "web", "a=1", "b"))
	of := func(ordinal int) *corev1.Pod {
		return testenv.OfKruise(testenv.APod(fmt.Sprint("web-", ordinal)).Of(set, testenv.KruiseSets).Pod, "first")
	}
	sent(t, of(0))
	foreseen(t, "b", of(0)) // where both replicas know the kind, and the record that takes a
	pods := placed(t, "b b a", of(0), of(2), of(3))
	for _, pod := range pods {
		testenv.KeepsKruise(t, pod, "first")
	}
	if home := pods[2]; home.Annotations[pin.AnnotationNode] != inA.Name {
		t.Errorf("annotations %v", home.Annotations)
	}
}

// The annotations for StatefulSets of Kubernetes have no effect on those of OpenKruise, which has
// such rules of its own: no gate of Limpet holds their pods back, and the set keeps its partition.
func TestKindsOfOthersAreLeftAlone(t *testing.T) {
	serve(t)
	env.ServeKinds(t)
	ns := env.Namespace(t)
	set := env.OfKind(t, testenv.KruiseSets, ns, "web", map[string]any{
		"replicas": int64(3), "podManagementPolicy": "Parallel",
		"updateStrategy": map[string]any{"rollingUpdate": map[string]any{"partition": int64(1)}},
	})
	env.Patch(t, set, `{"metadata":{"annotations":{"limpet.dev/scale-out-limit":"1","limpet.dev/partition":"50%"}}}`)
	want := set.DeepCopy()
	pod := testenv.OfKruise(testenv.APod("web-0").Of(set, testenv.KruiseSets).Pod, "first")
	admitted(t, pod)
	testenv.KeepsKruise(t, pod, "first")
	if len(pod.Spec.SchedulingGates) > 0 {
		t.Errorf("gates %v", pod.Spec.SchedulingGates)
	}
	env.Patch(t, set, `{"spec":{"revision":"second"}}`) // an update, as of a rollout
	want.Object["spec"].(map[string]any)["revision"] = "second"
	if diff := cmp.Diff(want.Object["spec"], set.Object["spec"]); diff != "" {
		t.Errorf("the set (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"limpet.dev/scale-out-limit": "1", "limpet.dev/partition": "50%"}, set.GetAnnotations()); diff != "" {
		t.Errorf("annotations of the set (-want +got):\n%s", diff)
	}
}
