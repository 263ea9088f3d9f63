package tokens_test

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
)

// The token of the controller writes the status of IPAMClaims, and nothing else of them.
func TestTheTokenWritesTheStatusOfClaims(t *testing.T) {
	deploy(t)
	env.Create(t, env.Manifest(t, "test/e2e/multus/testdata/claims.yaml")[0])
	claim := env.Manifest(t, "test/e2e/multus/testdata/claim.yaml")[0]
	claim.SetNamespace(env.Namespace(t))
	testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), claim.DeepCopy()) })
	token := env.As(t, env.Token(t, controller, env.Node(t).Name))
	next := claim.DeepCopy()
	next.SetName("next")
	for name, do := range map[string]request{
		"create": create(next), "delete": remove(claim), "change the network": patch(claim, `{"spec":{"network":"other"}}`), "label": patch(claim, `{"metadata":{"labels":{"a":"b"}}}`),
	} {
		t.Run(name, func(t *testing.T) { refused(t, token, byRole, do) })
	}
	allowed(t, token, func(ctx context.Context, c client.Client) error {
		status := client.RawPatch(types.ApplyPatchType, []byte(`{"apiVersion":"k8s.cni.cncf.io/v1alpha1","kind":"IPAMClaim",
			"metadata":{"name":"`+claim.GetName()+`","labels":{"a":"b"}},"spec":{"network":"other"},"status":{"ips":["10.0.0.5"]}}`))
		return c.Status().Patch(ctx, claim.DeepCopy(), status, client.FieldOwner("limpet-ipam-claims"))
	})
	if env.Read(t, client.ObjectKeyFromObject(claim), claim); claim.GetLabels() != nil || claim.Object["spec"].(map[string]any)["network"] != "inside" {
		t.Errorf("the request for the status changed the claim: %v", claim.Object)
	}
}
