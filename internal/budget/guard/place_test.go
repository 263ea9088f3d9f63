package guard_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// A pod whose address or node would not be there for its successor stays, if the budget asks
// for that. The answer names which of the two is missing.
func TestAPodWhosePlaceWouldBeLostStays(t *testing.T) {
	serve(t)
	for name, tc := range map[string]struct {
		node  func(testenv.Node) testenv.Node
		pool  bool
		asks  bool
		words []string // of the refusal; nil where the pod may go
	}{
		"address and node are kept":       {pool: true, asks: true},
		"no agent":                        {asks: true, words: []string{"address would not be kept", "no agent"}},
		"no agent, and nothing asked for": {},
		"cordoned":                        {pool: true, asks: true, node: testenv.Node.Cordoned, words: []string{"no node would take", "is cordoned"}},
		"too full":                        {pool: true, asks: true, node: func(n testenv.Node) testenv.Node { return n.WithRoom(1, 0) }, words: []string{"no node would take", "not enough cpu"}},
	} {
		t.Run(name, func(t *testing.T) {
			ns, node := guarded(t), testenv.ANode(env.Name("node")).WithRoom(10, 8)
			if tc.node != nil {
				node = tc.node(node)
			}
			env.Create(t, node.Node)
			known(t, serving.GetCache(), node.Node)
			if tc.pool {
				pool := &limpetv1alpha1.NodeIPPool{}
				pool.Name, pool.Status.Node, pool.Status.Network = "net."+node.Name, node.Name, "net"
				env.Create(t, pool)
				known(t, serving.GetCache(), pool)
			}
			pub := aBudget(ns, "web", "web", intstr.FromInt32(1))
			pub.Annotations = map[string]string{policyv1beta1.AnnotationKeepPlace: "true"}
			set := testenv.AStatefulSet("web", 1).In(ns)
			pod := aPod(set, 0)
			pod.Spec.NodeName = node.Name
			if tc.asks {
				pod.Annotations = map[string]string{reservation.RetainAnnotation: "10"}
			}
			put(t, pub, set.StatefulSet, pod)
			err := evictAs(t.Context(), env.Client, pod)
			if tc.words == nil {
				if err != nil {
					t.Errorf("eviction: %v", err)
				}
				return
			}
			refusedBy(t, err, "web")
			for _, word := range tc.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("message %q does not have %q", err, word)
				}
			}
		})
	}
}
