package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/internal/workloads"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// exemplify applies the manifest that shows users how to name a kind.
func exemplify(t *testing.T) {
	t.Helper()
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(root, "deploy", "examples", "custom-target.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	decoder := utilyaml.NewYAMLOrJSONDecoder(f, 4096)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(o)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		env.Create(t, o)
	}
}

// aggregate does what the controller of aggregated ClusterRoles does.
func aggregate(t *testing.T) {
	t.Helper()
	sum := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "limpet-controller-workloads"}}
	read(t, client.ObjectKeyFromObject(sum), sum)
	var parts rbacv1.ClusterRoleList
	if err := env.Client.List(t.Context(), &parts, client.MatchingLabels(sum.AggregationRule.ClusterRoleSelectors[0].MatchLabels)); err != nil {
		t.Fatal(err)
	}
	change(t, sum, func() {
		sum.Rules = nil
		for _, part := range parts.Items {
			sum.Rules = append(sum.Rules, part.Rules...)
		}
	})
}

// invalid waits until the state says, in these words, what is wrong with the list of
// kinds; without any, that nothing is.
func invalid(t *testing.T, s *appsv1beta1.PersistentPodState, words ...string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		read(t, client.ObjectKeyFromObject(s), s)
		c := meta.FindStatusCondition(s.Status.Conditions, appsv1beta1.ConditionKindsInvalid)
		if (c != nil) != (len(words) > 0) {
			return fmt.Errorf("condition of %s: %+v", s.Name, c)
		}
		for _, word := range words {
			if !strings.Contains(c.Message, word) {
				return fmt.Errorf("message %q does not say %q", c.Message, word)
			}
		}
		return nil
	})
}

func kindsText(t *testing.T) string {
	t.Helper()
	var config corev1.ConfigMap
	read(t, kindsConfig, &config)
	return config.Data[workloads.KindsKey]
}

// rename changes what the ConfigMap names.
func rename(t *testing.T, text string) {
	t.Helper()
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: kindsConfig.Namespace, Name: kindsConfig.Name}}
	change(t, config, func() { config.Data[workloads.KindsKey] = text })
}

// told waits for an event on the ConfigMap.
func told(t *testing.T, hint string) {
	t.Helper()
	var config corev1.ConfigMap
	read(t, kindsConfig, &config)
	testenv.Eventually(t, func() error {
		var list eventsv1.EventList
		if err := env.Client.List(t.Context(), &list, client.InNamespace(kindsConfig.Namespace)); err != nil {
			return err
		}
		if !slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.UID == config.UID && e.Type == corev1.EventTypeWarning && strings.Contains(e.Note, hint)
		}) {
			return fmt.Errorf("no event about %q among %d", hint, len(list.Items))
		}
		return nil
	})
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
					SpecReplicasPath: ".spec." + replicasPath[kind], StatusReplicasPath: ".status.replicas",
				},
			},
		}},
	}
	return crd
}

func aWorkload(t *testing.T, kind schema.GroupVersionKind, ns, name string, spec map[string]any) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(ns)
	o.SetName(name)
	if spec == nil {
		o.SetAnnotations(map[string]string{
			appsv1beta1.AnnotationAutoGenerate: "true", appsv1beta1.AnnotationPreferredTopology: hostname,
		})
		o.Object["spec"] = map[string]any{}
	}
	testenv.Eventually(t, func() error { // the API server serves a new kind a moment later
		return env.Client.Create(t.Context(), o)
	})
	return o
}

func resize(t *testing.T, o *unstructured.Unstructured, replicas int64) {
	t.Helper()
	set(t, o, replicas, "spec", replicasPath[o.GroupVersionKind()])
}

func set(t *testing.T, o *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	change(t, o, func() {
		if err := unstructured.SetNestedField(o.Object, value, path...); err != nil {
			t.Fatal(err)
		}
	})
}
