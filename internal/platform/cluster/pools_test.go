package cluster_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// An agent may create any number of pools of its node. The first ones are read.
func TestPoolsOfANodeAreBounded(t *testing.T) {
	node := env.Node(t)
	status := func(from, to *limpetv1alpha1.NodeIPPool) { to.Status = from.Status }
	c := cached(t, cluster.Needs{
		Objects: []cluster.Need{cluster.Of[*corev1.Node](), cluster.Of(cluster.NodeOwner, status)},
		Indexes: []cluster.Index{cluster.PoolsByNode()},
	})
	const most, all = 32, 40
	for i := range all {
		env.Create(t, &limpetv1alpha1.NodeIPPool{
			ObjectMeta: metav1.ObjectMeta{
				Name:            fmt.Sprintf("%s.net%02d", node.Name, all-1-i),
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
			},
			Status: limpetv1alpha1.NodeIPPoolStatus{Node: node.Name, Network: "net", Total: 5, Free: 5},
		})
	}
	testenv.Eventually(t, func() error {
		pools, err := cluster.PoolsOf(t.Context(), c, node.Name)
		if err != nil {
			return err
		}
		if len(pools) != most || pools[0].Name != node.Name+".net00" || pools[most-1].Name != node.Name+".net31" {
			return fmt.Errorf("%d pools are read, want the first %d", len(pools), most)
		}
		return nil
	})
}
