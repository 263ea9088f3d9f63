package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1alpha1 "github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	policyv1alpha1 "github.com/limpet-io/limpet/pkg/api/policy/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// inherit leaves an object of each kind behind as OpenKruise does: stored as v1alpha1, the only
// version.
func inherit(t *testing.T) client.ObjectKey {
	t.Helper()
	object := testenv.AFormerPersistentPodState("inherited", env.Namespace(t))
	env.StoreFormerVersion(t, object.Namespace)
	env.StoreFormerSpreads(t, object.Namespace)
	env.StoreFormerBudgets(t, object.Namespace)
	env.Create(t, object)
	if err := env.Client.Create(t.Context(), testenv.AFormerSpread(object.Name, object.Namespace)); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Create(t.Context(), testenv.AFormerBudget(object.Name, object.Namespace)); err != nil {
		t.Fatal(err)
	}
	// In the end no controller is left that converts; both are stored as v1beta1 then.
	env.RemoveAtEnd(t, &appsv1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}})
	env.RemoveAtEnd(t, &policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}})
	key := client.ObjectKeyFromObject(object)
	env.ConvertAt(t, testenv.FreeAddress(t), nil) // of a controller that is not there yet
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), key, &appsv1beta1.PersistentPodState{}); err == nil ||
			!strings.Contains(err.Error(), "conversion webhook") {
			return fmt.Errorf("get as v1beta1: %w, want it to need a conversion", err)
		}
		return nil
	})
	return key
}

// migrated waits until no object is stored in the former version, and compares the one
// that was.
func migrated(t *testing.T, key client.ObjectKey) {
	env.StoredAs(t, "v1beta1")
	var state appsv1beta1.PersistentPodState
	env.Read(t, key, &state)
	var again appsv1alpha1.PersistentPodState
	if err := again.ConvertFrom(&state); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(testenv.AFormerPersistentPodState(key.Name, key.Namespace).Spec, again.Spec); diff != "" {
		t.Errorf("inherited object (-want +got):\n%s", diff)
	}
	var spread appsv1alpha1.WorkloadSpread
	env.Read(t, key, &spread)
	if diff := cmp.Diff(testenv.AFormerSpread(key.Name, key.Namespace).Spec, spread.Spec); diff != "" {
		t.Errorf("inherited spread (-want +got):\n%s", diff)
	}
	var budget policyv1alpha1.PodUnavailableBudget
	env.Read(t, key, &budget)
	want := testenv.AFormerBudget(key.Name, key.Namespace)
	if diff := cmp.Diff(want.Spec, budget.Spec) + cmp.Diff(want.Annotations, budget.Annotations); diff != "" {
		t.Errorf("inherited budget (-want +got):\n%s", diff)
	}
}

// unconverted reads and deletes PersistentPodStates in the version that is stored, while no
// webhook converts them. Changes that a webhook judges are refused.
func unconverted(t *testing.T, key client.ObjectKey) {
	var state appsv1beta1.PersistentPodState
	env.Read(t, key, &state)
	var all appsv1beta1.PersistentPodStateList
	if err := env.Client.List(t.Context(), &all); err != nil || len(all.Items) == 0 {
		t.Errorf("list: %d objects, %v", len(all.Items), err)
	}
	state.Status.ObservedGeneration = state.Generation
	if err := env.Client.Status().Update(t.Context(), &state); err != nil {
		t.Errorf("update status: %v", err)
	}
	ctx := within(t, time.Minute)
	if err := env.Client.Get(ctx, key, &appsv1alpha1.PersistentPodState{}); err == nil {
		t.Error("v1alpha1 was read; the webhook is not away")
	}
	if err := env.Client.Create(ctx, testenv.APersistentPodState("late").In(key.Namespace).Requires("k").PersistentPodState); !apierrors.IsInternalError(err) {
		t.Errorf("create: %v, want it refused until the webhook is back", err)
	}
	budget := &policyv1beta1.PodUnavailableBudget{}
	env.Read(t, key, budget)
	second := &policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "late"}, Spec: budget.Spec}
	if err := env.Client.Create(ctx, second); !apierrors.IsInternalError(err) {
		t.Errorf("create a budget: %v, want it refused until the webhook is back", err)
	}
	budget.Finalizers = []string{"example.com/hold"}
	if err := env.Client.Update(ctx, budget); err != nil {
		t.Errorf("add a finalizer to a budget: %v", err)
	}
	budget.Finalizers = nil
	if err := env.Client.Update(ctx, budget); err != nil {
		t.Errorf("remove a finalizer of a budget: %v", err)
	}
	// As the namespace's deletion does it.
	for _, kind := range []client.Object{&appsv1beta1.PersistentPodState{}, &policyv1beta1.PodUnavailableBudget{}} {
		if err := env.Client.DeleteAllOf(ctx, kind, client.InNamespace(key.Namespace)); err != nil {
			t.Errorf("delete all %T: %v", kind, err)
		}
	}
	if err := env.Client.Get(ctx, key, &state); !apierrors.IsNotFound(err) {
		t.Errorf("get deleted: %v", err)
	}
}
