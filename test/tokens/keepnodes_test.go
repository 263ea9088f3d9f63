package tokens_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
)

// TestAStolenTokenKeepsNodes has the right of deploy/keep-nodes: nodes stay, or may go, and nothing else happens to them.
func TestAStolenTokenKeepsNodes(t *testing.T) {
	deploy(t)
	for _, path := range []string{"deploy/keep-nodes/policy.yaml", "deploy/keep-nodes/rbac.yaml"} {
		for _, o := range env.Manifest(t, path) {
			env.Create(t, o)
		}
	}
	node := testenv.ANode(env.Name("n"))
	node.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true", "own": "1"}
	env.Create(t, node.Node)
	n, thief := node.Node, env.As(t, env.Token(t, controller, ""))
	for name, text := range map[string]string{
		"label":                      `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`,
		"taint":                      `{"spec":{"taints":[{"key":"a","effect":"NoExecute"}]}}`,
		"cordon":                     `{"spec":{"unschedulable":true}}`,
		"another annotation":         `{"metadata":{"annotations":{"flannel.alpha.coreos.com/public-ip":"10.0.0.1"}}}`,
		"an annotation of others":    `{"metadata":{"annotations":{"own":null}}}`,
		"a finalizer":                `{"metadata":{"finalizers":["example.com/never"]}}`,
		"another value":              `{"metadata":{"annotations":{"cluster-autoscaler.kubernetes.io/scale-down-disabled":"false"}}}`,
		"a person's away":            `{"metadata":{"annotations":{"karpenter.sh/do-not-disrupt":null}}}`,
		"a person's overwritten":     `{"metadata":{"annotations":{"karpenter.sh/do-not-disrupt":"false"}}}`,
		"forget who wrote":           `{"metadata":{"managedFields":[{}]}}`,
		"what no controller removes": `{"metadata":{"annotations":{"cluster-autoscaler.kubernetes.io/scale-down-disabled":"true"}}}`,
		"forget who wrote and write": `{"metadata":{"managedFields":[{}],"annotations":{"karpenter.sh/do-not-disrupt":null}}}`,
	} {
		t.Run(name, func(t *testing.T) { refused(t, thief, denied, patch(n, text)) })
	}
	refused(t, thief, byRole, patchStatus(n, `{"status":{"addresses":[{"type":"InternalIP","address":"10.0.0.1"}]}}`))
	refused(t, thief, byRole, update(n, func(n *corev1.Node) { n.Labels["a"] = "b" }))
	refused(t, thief, byRole, remove(n))
	refused(t, thief, byRole, applied(testenv.ANode("new").Node, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"new"}}`))
	const key = `"cluster-autoscaler.kubernetes.io/scale-down-disabled":"true"`
	text := `{"apiVersion":"v1","kind":"Node","metadata":{"name":"` + n.Name + `","annotations":{` + key + `}}}`
	refused(t, thief, denied, applied(n, text))
	// An apply does not take away what was patched under its name.
	refused(t, client.WithFieldOwner(thief, "limpet-keep-nodes"), denied, patch(n, `{"metadata":{"annotations":{`+key+`}}}`))
	allowed(t, thief, func(ctx context.Context, c client.Client) error {
		return c.Patch(ctx, n.DeepCopy(), client.RawPatch(types.ApplyPatchType, []byte(text)), client.FieldOwner("limpet-keep-nodes"))
	})
}
