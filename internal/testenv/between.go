package testenv

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// GameRooms is a kind that stands between a workload of GameServers and its pods.
var GameRooms = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "GameRoom"}

// SpreadKinds is the key of the ConfigMap that names kinds for spreads.
const SpreadKinds = "WorkloadSpread_Watch_Custom_Workload_WhiteList"

// ServeSpreadKinds has two kinds named, served, and readable by the controller: GameServers, and
// GameRooms or StatefulSets between these and their pods.
func (e *Env) ServeSpreadKinds(t testing.TB) {
	t.Helper()
	e.NameKinds(t)
	e.NameSpreadKinds(t, `{"workloads":[{"Group":"example.com","Version":"v1","Kind":"GameServerSet","replicasPath":"spec.size",`+
		`"subResources":[{"Group":"example.com","Version":"v1","Kind":"GameRoom"},{"Group":"apps","Version":"v1","Kind":"StatefulSet"}]}]}`)
	e.ServeKind(t, GameServers)
	e.ServeKind(t, GameRooms)
	e.Create(t, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "limpet-controller-gamerooms", Labels: map[string]string{"limpet.dev/aggregate-to-controller": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{"gamerooms"}, Verbs: []string{"get", "list", "watch"}}},
	})
	e.AggregateRights(t)
}

// NameSpreadKinds writes the list of kinds for spreads.
func (e *Env) NameSpreadKinds(t testing.TB, list string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"data": map[string]string{SpreadKinds: list}})
	if err != nil {
		t.Fatal(err)
	}
	e.Patch(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "limpet-system", Name: "kruise-configuration"}}, string(patch))
}

// OfKind makes an object of a served kind, which another object may control, as soon as the kind
// can be created.
func (e *Env) OfKind(t testing.TB, kind schema.GroupVersionKind, ns, name string, spec map[string]any, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	o.SetGroupVersionKind(kind)
	o.SetNamespace(ns)
	o.SetName(name)
	o.SetOwnerReferences(owners)
	Eventually(t, func() error { return client.IgnoreAlreadyExists(e.Client.Create(t.Context(), o)) })
	e.RemoveAtEnd(t, o)
	return o
}
