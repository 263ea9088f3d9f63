package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1alpha1 "github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// anAlpha begins a v1alpha1 with everything that differs from v1beta1.
func anAlpha(name, namespace string) *appsv1alpha1.PersistentPodState {
	s := &appsv1alpha1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}}
	s.Spec.TargetReference = appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: name}
	s.Spec.RequiredPersistentTopology = &appsv1alpha1.NodeTopologyTerm{NodeTopologyKeys: []string{"zone"}}
	s.Spec.PreferredPersistentTopology = []appsv1alpha1.PreferredTopologyTerm{{
		Weight: 7, Preference: appsv1alpha1.NodeTopologyTerm{NodeTopologyKeys: []string{"rack", hostname}},
	}}
	s.Spec.PersistentPodStateRetentionPolicy = "Sometimes"
	return s
}

// inherit leaves an object behind as OpenKruise does: stored as v1alpha1, the only
// version that there was.
func inherit(t *testing.T) client.ObjectKey {
	t.Helper()
	object := anAlpha("inherited", env.Namespace(t))
	env.ChangeCRD(t, func(crd *apiextensionsv1.CustomResourceDefinition) {
		for i := range crd.Spec.Versions {
			v := &crd.Spec.Versions[i]
			v.Served, v.Storage = v.Name == "v1alpha1", v.Name == "v1alpha1"
			spec := v.Schema.OpenAPIV3Schema.Properties["spec"]
			annotations := spec.Properties["persistentPodAnnotations"]
			annotations.MaxItems = new(int64) // which tells this CRD from the one before
			spec.Properties["persistentPodAnnotations"] = annotations
		}
	})
	key := client.ObjectKeyFromObject(object)
	testenv.Eventually(t, func() error { // the API server stores by the CRD before for a moment, though it serves by this one
		probe := anAlpha("probe", key.Namespace)
		probe.Spec.PersistentPodAnnotations = []appsv1beta1.PersistentPodAnnotation{{Key: "k"}}
		if err := env.Client.Create(t.Context(), probe, client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("the former CRD is still in use: %w", err)
		}
		return nil
	})
	env.Create(t, object)
	env.ConvertAt(t, freeAddress(t), nil) // of a controller that is not there yet
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), key, &appsv1beta1.PersistentPodState{}); err == nil ||
			!strings.Contains(err.Error(), "conversion webhook") {
			return fmt.Errorf("get as v1beta1: %w, want it to need a conversion", err)
		}
		return nil
	})
	return key
}

// migrated waits until nothing is stored in a former version, and sees that nothing was
// lost.
func migrated(t *testing.T, key client.ObjectKey) {
	testenv.Eventually(t, func() error {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := env.Client.Get(t.Context(), client.ObjectKey{Name: testenv.ConvertedCRD}, &crd); err != nil {
			return err
		}
		if !slices.Equal(crd.Status.StoredVersions, []string{"v1beta1"}) {
			return fmt.Errorf("stored versions: %v", crd.Status.StoredVersions)
		}
		return nil
	})
	var state appsv1beta1.PersistentPodState
	env.Read(t, key, &state)
	var again appsv1alpha1.PersistentPodState
	if err := again.ConvertFrom(&state); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(anAlpha(key.Name, key.Namespace).Spec, again.Spec); diff != "" {
		t.Errorf("inherited object (-want +got):\n%s", diff)
	}
}

// unconverted sees what can be done with PersistentPodStates while nobody converts them:
// everything, in the version that is stored, that does not need a judgement.
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
	ctx := within(t, 5*time.Second)
	if err := env.Client.Get(ctx, key, &appsv1alpha1.PersistentPodState{}); err == nil {
		t.Error("v1alpha1 was read; the webhook is not away")
	}
	if err := env.Client.Create(ctx, testenv.APersistentPodState("late").In(key.Namespace).Requires("k").PersistentPodState); !apierrors.IsInternalError(err) {
		t.Errorf("create: %v, want it refused until the webhook is back", err)
	}
	// As the namespace's deletion does it.
	if err := env.Client.DeleteAllOf(ctx, &appsv1beta1.PersistentPodState{}, client.InNamespace(key.Namespace)); err != nil {
		t.Errorf("delete all: %v", err)
	}
	if err := env.Client.Get(ctx, key, &state); !apierrors.IsNotFound(err) {
		t.Errorf("get deleted: %v", err)
	}
}
