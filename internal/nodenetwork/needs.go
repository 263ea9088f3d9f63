package nodenetwork

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// Needs is what the reporter reads from the caches.
func Needs() cluster.Needs {
	return cluster.Needs{Objects: []cluster.Need{cluster.Of(cluster.NodeOwner, settings), cluster.Of[*corev1.Node](func(_, _ *corev1.Node) {})}}
}

// settings keeps how a node took its settings. Pools of other networks tell nothing about that, and cost nothing. A cache
// may ask twice, also about what was kept before.
func settings(from, to *v1alpha1.NodeIPPool) {
	to.Status.Node = from.Status.Node
	i := slices.IndexFunc(from.Status.Conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionConfigured })
	if i < 0 || from.Status.Network != v1alpha1.NodeNetworkName {
		return
	}
	to.Status.Network = v1alpha1.NodeNetworkName
	c := from.Status.Conditions[i]
	c.Message = strings.Clone(short(c.Message)) // not the whole text in memory
	to.Status.Conditions = []metav1.Condition{c}
}
