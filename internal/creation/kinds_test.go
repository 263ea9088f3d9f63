package creation_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// asking asks that a workload's pods return.
func asking(ns, name string, kind schema.GroupVersionKind) *appsv1beta1.PersistentPodState {
	s := testenv.APersistentPodState(name).In(ns).Prefers(100, hostname).PersistentPodState
	s.Spec.TargetReference.APIVersion, s.Spec.TargetReference.Kind = kind.GroupVersion().String(), kind.Kind
	return s
}

func TestAPodOfAFurtherKindIsPinnedToItsNode(t *testing.T) {
	kinds := map[string]schema.GroupVersionKind{
		"a kind that is named":        testenv.GameServers,
		"a StatefulSet of OpenKruise": testenv.KruiseSets,
	}
	for name, kind := range kinds {
		t.Run(name, func(t *testing.T) {
			node := putNode(t)
			env.NameKinds(t)
			state := asking(env.Namespace(t), "game", kind)
			state.Status.PodStates = map[string]appsv1beta1.PodState{"game-4": recordedOn(node, "10.0.1.5")}
			put(t, state)
			owner := &metav1.ObjectMeta{Namespace: state.Namespace, Name: "game", UID: "u"}
			testenv.Eventually(t, func() error { // the list of kinds is looked at now and then
				return pinned(t, testenv.APod("game-4").Of(owner, kind).Pod, node)
			})
		})
	}
}

// The first pod of a workload is faster than the generation of the PersistentPodState. Its
// addresses are held, for it was here before.
func TestAPodThatIsFasterThanItsPersistentPodStateIsPinned(t *testing.T) {
	node := putNode(t)
	env.ServeKinds(t)
	ns := env.Namespace(t)
	put(t, testenv.AReservation(lived(t, testenv.APod("early-0").In(ns).On(node.Name).At("10.0.1.9").Pod), time.Now()))
	early := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	early.SetGroupVersionKind(testenv.GameServers)
	early.SetNamespace(ns)
	early.SetName("early")
	early.SetAnnotations(map[string]string{appsv1beta1.AnnotationAutoGenerate: "true", appsv1beta1.AnnotationPreferredTopology: hostname})
	testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), early) }) // a new kind is served a moment later
	testenv.Eventually(t, func() error {
		return pinned(t, testenv.APod("early-0").Of(early, testenv.GameServers).With(retainAnnotation, "10").Pod, node)
	})
}

// pinned returns an error where a pod is not pinned to a node. It removes the pod.
func pinned(t *testing.T, pod *corev1.Pod, node testenv.Node) error {
	t.Helper()
	if err := env.Client.Create(t.Context(), pod); err != nil {
		return err
	}
	env.Remove(t, pod)
	if pod.Annotations[appsv1beta1.AnnotationInjected] == "" || pod.Annotations[pin.AnnotationUnpinned] != "" || pod.Spec.Affinity == nil {
		return fmt.Errorf("annotations %v, want a pin to %s", pod.Annotations, node.Name)
	}
	return nil
}
