package testenv

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Two kinds of workload that tests have served: the one of deploy/examples/custom-target.yaml,
// and the StatefulSet of OpenKruise.
var (
	GameServers = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "GameServerSet"}
	KruiseSets  = schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "StatefulSet"}
)

// ReplicasField is the field of the spec in which a kind keeps the wanted replicas.
func ReplicasField(kind schema.GroupVersionKind) string {
	if kind == GameServers {
		return "size" // only the scale subresource tells
	}
	return "replicas"
}

// ServeKinds has the two kinds named, served, and readable by the controller.
func (e *Env) ServeKinds(t testing.TB) {
	t.Helper()
	e.NameKinds(t)
	e.ServeKind(t, GameServers)
	e.ServeKind(t, KruiseSets)
	e.AggregateRights(t)
}

// NameKinds applies the manifest that shows users how to name a kind.
func (e *Env) NameKinds(t testing.TB) {
	t.Helper()
	e.AsController(t) // its namespace
	for _, o := range e.Manifest(t, "deploy/examples/custom-target.yaml") {
		e.Create(t, o)
	}
}

// ServeKind makes the CRD of a kind, as soon as the one of a test before is gone.
func (e *Env) ServeKind(t testing.TB, kind schema.GroupVersionKind) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	var crd *apiextensionsv1.CustomResourceDefinition
	Eventually(t, func() error {
		crd = crdOf(kind)
		return e.Client.Create(t.Context(), crd)
	})
	e.RemoveAtEnd(t, crd)
	return crd
}

// crdOf is a kind of workload with a scale subresource, and nothing else to it.
func crdOf(kind schema.GroupVersionKind) *apiextensionsv1.CustomResourceDefinition {
	singular := strings.ToLower(kind.Kind)
	anything := apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: singular + "s." + kind.Group}}
	crd.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: kind.Group,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind.Kind, Singular: singular, Plural: singular + "s"},
		Scope: apiextensionsv1.NamespaceScoped,
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: kind.Version, Served: true, Storage: true,
			Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
				Type:       "object",
				Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": anything, "status": anything},
			}},
			Subresources: &apiextensionsv1.CustomResourceSubresources{
				Scale: &apiextensionsv1.CustomResourceSubresourceScale{
					SpecReplicasPath: ".spec." + ReplicasField(kind), StatusReplicasPath: ".status.replicas",
				},
			},
		}},
	}
	return crd
}

// AggregateRights does what the controller of aggregated ClusterRoles does, until the test ends.
func (e *Env) AggregateRights(t testing.TB) {
	t.Helper()
	sum := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "limpet-controller-workloads"}}
	e.Read(t, client.ObjectKeyFromObject(sum), sum)
	var parts rbacv1.ClusterRoleList
	if err := e.Client.List(t.Context(), &parts, client.MatchingLabels(sum.AggregationRule.ClusterRoleSelectors[0].MatchLabels)); err != nil {
		t.Fatal(err)
	}
	e.Change(t, sum, func() {
		sum.Rules = nil
		for _, part := range parts.Items {
			sum.Rules = append(sum.Rules, part.Rules...)
		}
	})
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() { // whatever its version is by now
		if err := e.Client.Patch(ctx, sum, client.RawPatch(types.MergePatchType, []byte(`{"rules":null}`))); err != nil {
			t.Errorf("take the rights back: %v", err)
		}
	})
}
