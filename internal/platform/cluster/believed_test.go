package cluster_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// An object is believed when the live Node in its status owns it, and in no other case.
func TestBelieved(t *testing.T) {
	node := testenv.ANode("n1").Node
	node.UID = "live"
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "live"}
	with := func(edit func(*metav1.OwnerReference)) []metav1.OwnerReference {
		next := owner
		edit(&next)
		return []metav1.OwnerReference{next}
	}
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n2", UID: "other"}
	cases := map[string]struct {
		node   *corev1.Node
		named  string
		owners []metav1.OwnerReference
		want   bool
	}{
		"the live Node owns it":                {node, "n1", []metav1.OwnerReference{owner}, true},
		"… beside another owner":               {node, "n1", []metav1.OwnerReference{other, owner}, true},
		"there is no such Node":                {nil, "n1", []metav1.OwnerReference{owner}, false},
		"nothing owns it":                      {node, "n1", nil, false},
		"another Node owns it":                 {node, "n1", []metav1.OwnerReference{other}, false},
		"a Node of the name owned it, is gone": {node, "n1", with(func(o *metav1.OwnerReference) { o.UID = "former" }), false},
		"a Node of another name has the UID":   {node, "n1", with(func(o *metav1.OwnerReference) { o.Name = "n2" }), false},
		"a pod of the name owns it":            {node, "n1", with(func(o *metav1.OwnerReference) { o.Kind = "Pod" }), false},
		"a Node of another group owns it":      {node, "n1", with(func(o *metav1.OwnerReference) { o.APIVersion = "example.com/v1" }), false},
		"it names another node":                {node, "n2", []metav1.OwnerReference{owner}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := cluster.Believed(tc.node, tc.named, tc.owners); got != tc.want {
				t.Errorf("Believed: %v, want %v", got, tc.want)
			}
		})
	}
}

// The cache keeps of the owners what Believed reads.
func TestNodeOwner(t *testing.T) {
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "live", Controller: new(true), BlockOwnerDeletion: new(true)}
	pod := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: "n1", UID: "pod"}
	from, to := &limpetv1alpha1.NodeIPPool{}, &limpetv1alpha1.NodeIPPool{}
	from.OwnerReferences = []metav1.OwnerReference{pod, owner}
	cluster.NodeOwner(from, to)
	want := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "live"}}
	if diff := cmp.Diff(want, to.OwnerReferences); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	without := &limpetv1alpha1.NodeIPPool{}
	from.OwnerReferences = []metav1.OwnerReference{pod}
	if cluster.NodeOwner(from, without); without.OwnerReferences != nil {
		t.Errorf("owners %v, want none", without.OwnerReferences)
	}
}
