package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1alpha1 "github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/test/programs"
)

// bothVersions writes objects in each version and reads them in the other.
func bothVersions(t *testing.T) {
	ns := env.Namespace(t)
	alpha := anAlpha("alpha", ns)
	env.Create(t, alpha)
	beta := testenv.APersistentPodState("beta").In(ns).Requires("zone").Prefers(7, "rack", hostname).PersistentPodState
	env.Create(t, beta)

	var alphaAsBeta appsv1beta1.PersistentPodState
	read(t, client.ObjectKeyFromObject(alpha), &alphaAsBeta)
	want := testenv.APersistentPodState("alpha").Requires("zone").Prefers(7, "rack", hostname).Spec
	want.PersistentPodStateRetentionPolicy = "Sometimes"
	if diff := cmp.Diff(want, alphaAsBeta.Spec); diff != "" {
		t.Errorf("v1alpha1 read as v1beta1 (-want +got):\n%s", diff)
	}
	var betaAsAlpha appsv1alpha1.PersistentPodState
	read(t, client.ObjectKeyFromObject(beta), &betaAsAlpha)
	wantAlpha := anAlpha("beta", ns).Spec
	wantAlpha.PersistentPodStateRetentionPolicy = ""
	if diff := cmp.Diff(wantAlpha, betaAsAlpha.Spec); diff != "" {
		t.Errorf("v1beta1 read as v1alpha1 (-want +got):\n%s", diff)
	}

	// What was written in one is changed in the other; a policy that only v1alpha1 allows
	// is in nobody's way.
	change(t, &alphaAsBeta, func() { alphaAsBeta.Spec.RequiredPersistentTopology.Keys = []string{"zone", "region"} })
	change(t, &betaAsAlpha, func() {
		betaAsAlpha.Spec.PreferredPersistentTopology[0].Preference.NodeTopologyKeys = []string{"row"}
	})
	read(t, client.ObjectKeyFromObject(alpha), alpha)
	if diff := cmp.Diff([]string{"zone", "region"}, alpha.Spec.RequiredPersistentTopology.NodeTopologyKeys); diff != "" {
		t.Errorf("changed as v1beta1 (-want +got):\n%s", diff)
	}
	read(t, client.ObjectKeyFromObject(beta), beta)
	if diff := cmp.Diff([]string{"row"}, beta.Spec.PreferredPersistentTopology[0].Preference.Keys); diff != "" {
		t.Errorf("changed as v1alpha1 (-want +got):\n%s", diff)
	}

	testenv.Eventually(t, func() error { // the status is written in the one and read in the other
		var list appsv1alpha1.PersistentPodStateList
		if err := env.Client.List(t.Context(), &list, client.InNamespace(ns)); err != nil {
			return err
		}
		for _, s := range list.Items {
			c := meta.FindStatusCondition(s.Status.Conditions, appsv1beta1.ConditionRecording)
			if c == nil || c.Reason != appsv1beta1.ReasonTargetMissing || s.Status.ObservedGeneration != s.Generation {
				return fmt.Errorf("status of %s: %+v", s.Name, s.Status)
			}
		}
		if len(list.Items) != 2 {
			return fmt.Errorf("%d objects", len(list.Items))
		}
		return nil
	})
}

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

func read(t *testing.T, key client.ObjectKey, into client.Object) {
	t.Helper()
	if err := env.Client.Get(t.Context(), key, into); err != nil {
		t.Fatalf("get %T %s: %v", into, key, err)
	}
}

// change updates an object, whose status the controller writes meanwhile.
func change(t *testing.T, o client.Object, edit func()) {
	t.Helper()
	testenv.Eventually(t, func() error {
		read(t, client.ObjectKeyFromObject(o), o)
		edit()
		return env.Client.Update(t.Context(), o)
	})
}

// sampled applies a manifest of OpenKruise's users as it is.
func sampled(t *testing.T) {
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "test", "e2e", "testdata", "persistentpodstate.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var sample appsv1alpha1.PersistentPodState
	if err := utilyaml.UnmarshalStrict(text, &sample); err != nil {
		t.Fatal(err)
	}
	env.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: sample.Namespace}}, &sample)
	var state appsv1beta1.PersistentPodState
	read(t, client.ObjectKeyFromObject(&sample), &state)
	want := testenv.APersistentPodState("echoserver").Prefers(100, hostname).Requires(corev1.LabelFailureDomainBetaZone).Spec
	want.TargetReference.APIVersion = "apps.kruise.io/v1beta1"
	if diff := cmp.Diff(want, state.Spec); diff != "" {
		t.Errorf("sample (-want +got):\n%s", diff)
	}
}

// inherit leaves an object behind as OpenKruise does: stored as v1alpha1, the only
// version that there was.
func inherit(t *testing.T) client.ObjectKey {
	t.Helper()
	object := anAlpha("inherited", env.Namespace(t))
	changeCRD(t, func(crd *apiextensionsv1.CustomResourceDefinition) {
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
	pointConversionAt(t, freeAddress(t)) // of a controller that is not there yet
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
		if err := env.Client.Get(t.Context(), client.ObjectKey{Name: "persistentpodstates.apps.kruise.io"}, &crd); err != nil {
			return err
		}
		if !slices.Equal(crd.Status.StoredVersions, []string{"v1beta1"}) {
			return fmt.Errorf("stored versions: %v", crd.Status.StoredVersions)
		}
		return nil
	})
	var state appsv1beta1.PersistentPodState
	read(t, key, &state)
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
	read(t, key, &state)
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

// pointConversionAt gives the CRD what deploy/crds says of its versions and of their
// conversion, with the service replaced by the address of one replica.
func pointConversionAt(t *testing.T, webhook string) {
	t.Helper()
	want := manifestCRD(t)
	_, port, _ := net.SplitHostPort(webhook)
	url := "https://localhost:" + port + *want.Spec.Conversion.Webhook.ClientConfig.Service.Path
	changeCRD(t, func(crd *apiextensionsv1.CustomResourceDefinition) {
		var authority []byte
		if before := crd.Spec.Conversion.Webhook; before != nil {
			authority = before.ClientConfig.CABundle
		}
		crd.Spec.Versions, crd.Spec.Conversion = want.Spec.Versions, want.Spec.Conversion.DeepCopy()
		crd.Spec.Conversion.Webhook.ClientConfig = &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: authority}
	})
}

// manifestCRD is the CRD as users apply it.
func manifestCRD(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	kubectl, err := programs.Find(os.Getenv(programs.Var), "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	text, err := exec.CommandContext(t.Context(), kubectl, "kustomize", filepath.Join(root, "deploy", "crds")).Output()
	if err != nil {
		t.Fatalf("render deploy/crds: %v", err)
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := decoder.Decode(crd); err != nil {
			t.Fatalf("find CRD %s: %v", "persistentpodstates.apps.kruise.io", err)
		}
		if crd.Name == "persistentpodstates.apps.kruise.io" {
			return crd
		}
	}
}

func changeCRD(t *testing.T, edit func(*apiextensionsv1.CustomResourceDefinition)) {
	t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "persistentpodstates.apps.kruise.io"}}
	change(t, crd, func() { edit(crd) })
}
