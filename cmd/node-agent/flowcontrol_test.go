package main

import (
	"fmt"
	"net/http"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// schemaHeader is the header in which the API server names the FlowSchema of a request.
const schemaHeader = "X-Kubernetes-Pf-Flowschema-Uid"

// heads keeps the FlowSchema of the last answer.
type heads struct {
	next   http.RoundTripper
	schema *string
}

func (h heads) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := h.next.RoundTrip(r)
	if err == nil {
		*h.schema = answer.Header.Get(schemaHeader)
	}
	return answer, err
}

// TestAgentsHaveSeatsOfTheirOwn applies deploy/flow-control, and asks as the agent and as the controller.
func TestAgentsHaveSeatsOfTheirOwn(t *testing.T) {
	uids := map[string]string{}
	for _, o := range env.Manifest(t, "deploy/flow-control/flow-control.yaml") {
		env.Create(t, o)
		if o.GetKind() == "FlowSchema" {
			uids[o.GetName()] = string(o.GetUID())
		}
	}
	for _, account := range []string{"limpet-agent", "limpet-controller"} {
		schema := ""
		as := rest.CopyConfig(env.Config)
		as.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:limpet-system:" + account}
		as.Wrap(func(next http.RoundTripper) http.RoundTripper { return heads{next, &schema} })
		c := env.As(t, as)
		testenv.Eventually(t, func() error {
			_ = c.List(t.Context(), &v1alpha1.NodeIPPoolList{}) // also a refusal has the header
			if schema == "" || schema != uids[account] {
				return fmt.Errorf("requests of %s have the FlowSchema %q, want %q", account, schema, uids[account])
			}
			return nil
		})
	}
}
