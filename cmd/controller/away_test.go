package main

import (
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// away creates pods while no webhook answers: only pods that asked for an address wait.
func away(t *testing.T) {
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 3).In(ns)
	env.Create(t, set.StatefulSet)
	env.Create(t,
		testenv.APod("bystander").In(ns).Pod,
		testenv.APod("alone").In(ns).With(reservation.RetainAnnotation, "10").Pod,
		testenv.APod("web-0").In(ns).OwnedBy(set.StatefulSet).Pod)
	retained := testenv.APod("web-1").In(ns).OwnedBy(set.StatefulSet).With(reservation.RetainAnnotation, "10")
	if err := env.Client.Create(t.Context(), retained.Pod); !apierrors.IsInternalError(err) {
		t.Errorf("create retained pod: %v, want it refused until the webhook is back", err)
	}
	unnamed := testenv.APod("").In(ns).OwnedBy(set.StatefulSet).With(reservation.RetainAnnotation, "10").Pod
	unnamed.GenerateName, unnamed.OwnerReferences[0].Kind = "web-", "GameServerSet"
	env.Create(t, unnamed) // which no later pod can be
	if err := env.Client.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-0"}}); err != nil {
		t.Errorf("delete pod: %v", err)
	}
}

// frozen creates a pod that asks for nothing while the replica hangs. The API server waits two seconds for each webhook whose
// pods pass then, and would wait ten by itself.
func frozen(t *testing.T, r *replica) {
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 1).In(ns)
	env.Create(t, set.StatefulSet)
	if err := r.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Errorf("wake up replica: %v", err)
		}
	}()
	env.Create(t, testenv.APod("web-0").In(ns).OwnedBy(set.StatefulSet).Pod)
	mutating, _ := readWebhooks(t)
	for _, w := range mutating.Webhooks {
		if *w.FailurePolicy == admissionv1.Ignore && *w.TimeoutSeconds > 2 {
			t.Errorf("the API server waits %d s for %s", *w.TimeoutSeconds, w.Name)
		}
	}
}

// ownedStates makes one PersistentPodState in each version, with an owner and a finalizer.
func ownedStates(t *testing.T) []client.ObjectKey {
	t.Helper()
	ns := env.Namespace(t)
	states := []client.Object{testenv.AFormerPersistentPodState("owned-alpha", ns), testenv.APersistentPodState("owned-beta").In(ns).Requires(hostname).PersistentPodState}
	var keys []client.ObjectKey
	for _, s := range states {
		s.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: "u"}})
		s.SetFinalizers([]string{"example.com/hold"})
		env.Create(t, s)
		keys = append(keys, client.ObjectKeyFromObject(s))
	}
	return keys
}

// undisturbed changes and deletes PersistentPodStates as a cluster does that deletes
// objects, while no webhook answers. Only changes that the webhook judges wait for it.
func undisturbed(t *testing.T, keys []client.ObjectKey) {
	for _, key := range keys {
		t.Run(key.Name, func(t *testing.T) {
			patch := func(text string) error {
				s := &appsv1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
				return env.Client.Patch(within(t, time.Minute), s, client.RawPatch(types.MergePatchType, []byte(text)))
			}
			for what, text := range map[string]string{
				"the owner, as garbage collection lets orphans go": `{"metadata":{"ownerReferences":null}}`,
				"an annotation of another program":                 `{"metadata":{"annotations":{"example.com/k":"v"}}}`,
			} {
				if err := patch(text); err != nil {
					t.Errorf("change %s: %v", what, err)
				}
			}
			for what, text := range map[string]string{
				"the spec":               `{"spec":{"requiredPersistentTopology":{"keys":["rack"]}}}`,
				"when pods are released": `{"metadata":{"annotations":{"` + pin.AnnotationReleaseOn + `":"deleted"}}}`,
				"when pods are released, to the empty word": `{"metadata":{"annotations":{"` + pin.AnnotationReleaseAfter + `":""}}}`,
			} {
				if err := patch(text); !apierrors.IsInternalError(err) {
					t.Errorf("change %s: %v, want it refused until the webhook is back", what, err)
				}
			}
			s := &appsv1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
			if err := env.Client.Delete(t.Context(), s); err != nil {
				t.Fatalf("delete: %v", err)
			}
			if err := patch(`{"metadata":{"finalizers":null}}`); err != nil {
				t.Errorf("remove finalizer: %v", err)
			}
			if err := env.Client.Get(t.Context(), key, s); !apierrors.IsNotFound(err) {
				t.Errorf("get what was released: %v, want it gone", err)
			}
		})
	}
}
