package main

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// agentUser is the service account of deploy/daemonset.
const agentUser = "system:serviceaccount:limpet-system:limpet-agent"

// onNode is what the API server reads from a token that is bound to a pod on node n1.
var onNode = map[string][]string{"authentication.kubernetes.io/node-name": {"n1"}}

// awaitRights waits until the API server knows the rights that grant gave: it learns of roles and of bindings one after
// the other, and an agent that asks before logs errors.
func awaitRights(t *testing.T) {
	t.Helper()
	as := rest.CopyConfig(env.Config)
	as.Impersonate = rest.ImpersonationConfig{UserName: agentUser, Extra: onNode}
	c := env.As(t, as)
	testenv.Eventually(t, func() error {
		event := &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "rights"}, InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "n1"}}
		return errors.Join(c.List(t.Context(), &v1alpha1.IPReservationList{}, client.Limit(1)), c.Create(t.Context(), event, client.DryRunAll))
	})
}

// enforce applies the policies of deploy/policies, and waits until they hold.
func enforce(t *testing.T) {
	t.Helper()
	for _, o := range env.Manifest(t, "deploy/policies/agent.yaml") {
		env.Create(t, o)
	}
	as := rest.CopyConfig(env.Config)
	as.Impersonate = rest.ImpersonationConfig{UserName: agentUser, Extra: onNode}
	c := env.As(t, as)
	testenv.Eventually(t, func() error {
		pool := &v1alpha1.NodeIPPool{
			ObjectMeta: metav1.ObjectMeta{Name: "n2.net", Labels: map[string]string{v1alpha1.LabelNode: "n2"}},
			Status:     v1alpha1.NodeIPPoolStatus{Node: "n2", Network: "net"},
		}
		if err := c.Create(t.Context(), pool, client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Errorf("create a pool of another node: %w, want it forbidden", err)
		}
		return nil
	})
}
