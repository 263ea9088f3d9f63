package tokens_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/creation"
	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
)

const keep, keepFrom = reservation.KeepAnnotation, pin.AnnotationKeepFrom

// keeping makes namespaces without a request, and with some, and one that waits for no controller.
func keeping(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, change := range map[string]string{
		"asks": `{"annotations":{"limpet.dev/keep":"10m"}}`, "asks wrongly": `{"annotations":{"limpet.dev/keep":"soon"}}`,
		"asks, and is open": `{"annotations":{"limpet.dev/keep":"10m"},"labels":{"limpet.dev/pin":"open"}}`,
		"says not":          `{"annotations":{"limpet.dev/keep":"0"}}`, "says nothing": `{}`,
	} {
		all[name] = env.Namespace(t)
		env.Patch(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: all[name]}}, `{"metadata":`+change+`}`)
	}
	return all
}

// refusedBy creates a pod for a dry run, and reports whether the policy limpet-kept refuses the pod.
func refusedBy(t *testing.T, pod *corev1.Pod) bool {
	t.Helper()
	err := env.Client.Create(t.Context(), pod, client.DryRunAll)
	if err != nil && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "limpet-kept")) {
		t.Fatal(err)
	}
	return err != nil
}

// Without a controller, pods of a namespace that asks are refused where pods with the same request of their own are. No
// webhook runs here.
func TestPodsOfAKeepingNamespaceWaitForAController(t *testing.T) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: controller}}
	env.Create(t, account)
	for _, o := range env.Manifest(t, "deploy/controller/kept.yaml") {
		if o.GetKind() == "ValidatingAdmissionPolicyBinding" {
			if err := unstructured.SetNestedField(o.Object, account.Namespace, "spec", "paramRef", "namespace"); err != nil {
				t.Fatal(err)
			}
		}
		env.Create(t, o)
	}
	namespaces := keeping(t)
	owned := func(apiVersion, kind string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "w", UID: "u", Controller: new(true)}}
	}
	for namespace, ns := range namespaces { // the API server takes a moment to know the policy and the namespaces
		testenv.Eventually(t, func() error {
			pod := testenv.APod("w-0").In(ns).Pod
			pod.OwnerReferences = owned("apps/v1", "StatefulSet")
			if got, want := refusedBy(t, pod), strings.HasPrefix(namespace, "asks") && namespace != "asks, and is open"; got != want {
				return fmt.Errorf("a pod of a namespace that %s: refused %t, want %t", namespace, got, want)
			}
			return nil
		})
	}
	refusals := 0
	for name, owners := range map[string][]metav1.OwnerReference{
		"a bare pod": nil, "a StatefulSet": owned("apps/v1", "StatefulSet"), "a kind of others": owned("example.com/v1", "GameServerSet"),
		"a ReplicaSet": owned("apps/v1", "ReplicaSet"), "a DaemonSet": owned("apps/v1", "DaemonSet"), "a Job": owned("batch/v1", "Job"),
		"a Job of others": owned("batch.volcano.sh/v1alpha1", "Job"), "an owner alone": {{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "w", UID: "u"}},
	} {
		for namespace, ns := range namespaces {
			for of, annotations := range map[string]map[string]string{
				"that no webhook saw": nil, "with other annotations": {"example.com/a": "b"}, "that a webhook gave its request": {keep: "10m", keepFrom: "Namespace"},
				"that a webhook gave nothing": {keepFrom: pin.KeepFromNone}, "that says not": {keep: "0"}, "that says minutes": {reservation.RetainAnnotation: "10"},
			} {
				for _, variant := range []string{"", "of its node", "without a name", "with a prefix, too"} {
					pod := testenv.APod("w-0").In(ns).Pod
					if variant != "" {
						pod.GenerateName = "w-"
					}
					pod.OwnerReferences, pod.Annotations, pod.Spec.HostNetwork = owners, annotations, variant == "of its node"
					if variant == "without a name" {
						pod.Name = ""
					}
					asking := pod.DeepCopy()
					asking.Annotations = map[string]string{keep: "10m"}
					seen := annotations != nil && annotations["example.com/a"] == ""
					want := !seen && strings.HasPrefix(namespace, "asks") && namespace != "asks, and is open" && creation.ConcernOf(asking) == creation.Retention
					if got := refusedBy(t, pod); got != want {
						t.Errorf("a pod of %s %s %s, whose namespace %s: refused %t, want %t", name, of, variant, namespace, got, want)
					}
					if want {
						refusals++
					}
				}
			}
		}
	}
	if refusals != 24 {
		t.Errorf("%d pods are refused, want 24: 3 kinds, 2 namespaces, 2 sorts of annotations, with and without a prefix", refusals)
	}
	env.Remove(t, account) // with the namespace of the controller
	testenv.Eventually(t, func() error {
		pod := testenv.APod("w-0").In(namespaces["asks"]).Pod
		if pod.OwnerReferences = owned("apps/v1", "StatefulSet"); refusedBy(t, pod) {
			return errors.New("the policy refuses a pod that no controller will ever see")
		}
		return nil
	})
}
