package creation_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// The CRD of PersistentPodStates is deleted, as the uninstallation of OpenKruise may do. From the moment
// when the deletion begins, pods that ask to return or to keep their addresses are refused, with the
// remedy. Pods that ask for nothing start. When the CRD is back, a pod returns to the node that holds its
// addresses.
func TestPodsThatAskWaitWhileTheirKindIsMissing(t *testing.T) {
	node := putNode(t)
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 2).In(ns)
	set.Annotations = map[string]string{appsv1beta1.AnnotationAutoGenerate: "true", appsv1beta1.AnnotationRequiredTopology: hostname}
	other := testenv.AStatefulSet("other", 1).In(ns)
	held := testenv.APersistentPodState("held").In(ns).Requires(hostname).PersistentPodState
	held.Finalizers = []string{"example.com/slow"}
	put(t, set.StatefulSet, other.StatefulSet, held)
	former := lived(t, nextOf(set).On(node.Name).At("10.0.3.9").Pod)
	put(t, testenv.AReservation(former, time.Now()))

	var crd apiextensionsv1.CustomResourceDefinition
	env.Read(t, client.ObjectKey{Name: cluster.CRDs[0]}, &crd)
	if err := env.Client.Delete(t.Context(), crd.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	restored := false
	restore := func() {
		if restored {
			return
		}
		restored = true
		_ = env.Client.Patch(t.Context(), held, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))) // after a failure
		again := &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: crd.Name, Labels: crd.Labels, Annotations: crd.Annotations}, Spec: crd.Spec,
		}
		testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), again) })
		testenv.Eventually(t, func() error {
			return env.Client.List(t.Context(), &appsv1beta1.PersistentPodStateList{}, client.InNamespace(ns))
		})
	}
	defer restore()

	refused := func() {
		t.Helper()
		plain := nextOf(set).Pod
		delete(plain.Annotations, retainAnnotation) // its StatefulSet asks for the node
		for name, pod := range map[string]*corev1.Pod{
			"its workload asks": plain, "it asks for its address": nextOf(other).Pod, "both": nextOf(set).Pod,
		} {
			if err := env.Client.Create(t.Context(), pod); err == nil || !strings.Contains(err.Error(), "deploy/crds") {
				t.Errorf("%s: %v, want a refusal with the remedy", name, err)
			}
		}
	}
	refused() // one of the objects is still there
	env.Patch(t, held, `{"metadata":{"finalizers":null}}`)
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(&crd), &apiextensionsv1.CustomResourceDefinition{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the CRD is still there: %w", err)
		}
		return nil
	})
	refused()
	free := nextOf(other).Pod
	delete(free.Annotations, retainAnnotation)
	env.Remove(t, admitted(t, free))

	restore()
	env.Create(t, testenv.APersistentPodState("again").In(ns).Requires(hostname).PersistentPodState)
	for _, c := range replicaCaches { // their watches begin again a moment later
		env.Known(t, c, &appsv1beta1.PersistentPodStateList{})
	}
	pod := heldTo(t, set, hostname, node.Name)
	annotated(t, pod, map[string]string{pin.AnnotationRecalled: node.Name})
}
