package tokens_test

import (
	"context"
	"fmt"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// Agents and controller read the NodeNetwork. The controller writes its status. No token of Limpet changes its spec.
func TestTheNodeNetworkIsTheAdministrators(t *testing.T) {
	env.Since(t, 31, "CEL functions for networks")
	deploy(t)
	own, other := env.Node(t), env.Node(t)
	o := &limpetv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: limpetv1alpha1.NodeNetworkName}, Spec: limpetv1alpha1.NodeNetworkSpec{MTU: 1450}}
	absent := o.DeepCopy()
	env.Create(t, o)
	tells := func(node testenv.Node) *limpetv1alpha1.NodeIPPool {
		p := pool(node, limpetv1alpha1.NodeNetworkName)
		p.Status.Conditions = []metav1.Condition{{
			Type: limpetv1alpha1.ConditionConfigured, Status: metav1.ConditionTrue, Reason: limpetv1alpha1.ReasonApplied, LastTransitionTime: metav1.Now(),
		}}
		return p
	}
	ofAgent, ofController := env.As(t, env.Token(t, agent, own.Name)), env.As(t, env.Token(t, controller, own.Name))
	named := client.MatchingFields{metav1.ObjectNameField: limpetv1alpha1.NodeNetworkName}
	allowed(t, ofAgent, list(&limpetv1alpha1.NodeNetworkList{}, named))
	allowed(t, ofAgent, create(tells(own)))
	env.RemoveAtEnd(t, tells(own))
	allowed(t, ofController, get(o))
	allowed(t, ofController, patchStatus(o, `{"status":{"nodes":1},"spec":{"mtu":9000},"metadata":{"labels":{"a":"b"}}}`))
	env.Read(t, client.ObjectKeyFromObject(o), o)
	if o.Spec.MTU != 1450 || len(o.Labels) != 0 || o.Status.Nodes != 1 {
		t.Errorf("after a write of the status: %+v", o)
	}
	for who, c := range map[string]client.Client{"agent": ofAgent, "controller": ofController} {
		for what, do := range map[string]request{
			"create":     create(absent),
			"change":     patch(o, `{"spec":{"mtu":9000}}`),
			"update":     update(o, func(o *limpetv1alpha1.NodeNetwork) { o.Spec.MTU = 9000 }),
			"delete":     remove(o),
			"delete all": removeAll(&limpetv1alpha1.NodeNetwork{}),
		} {
			t.Run(who+"/"+what, func(t *testing.T) { refused(t, c, byRole, do) })
		}
	}
	refused(t, ofAgent, byRole, patchStatus(o, `{"status":{"nodes":2}}`))
	refused(t, ofAgent, denied, create(tells(other)))
	refused(t, ofController, byRole, list(&limpetv1alpha1.NodeNetworkList{}))
}

// TestANodeNetworkInUseIsNotDeleted deletes an object with a range that new pods get addresses of, as an administrator,
// and then its kind, whose deletion must not wait.
func TestANodeNetworkInUseIsNotDeleted(t *testing.T) {
	env.Since(t, 31, "CEL functions for networks")
	deploy(t)
	o := &limpetv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: limpetv1alpha1.NodeNetworkName}}
	o.Spec.Ranges = []limpetv1alpha1.NodeRange{{Node: "n1", CIDR: "10.200.1.0/24"}, {Node: "n2", CIDR: "10.200.2.0/24", Use: limpetv1alpha1.RangeInstead}}
	next := o.DeepCopy()
	put := func() *limpetv1alpha1.NodeNetwork {
		made := next.DeepCopy()
		testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), made) }) // the former one is gone then
		return made
	}
	t.Cleanup(func() { _ = env.As(t, byBreakGlass()).Delete(context.WithoutCancel(t.Context()), o) }) // of a test that failed

	o = put()
	refused(t, env.Client, "new pods get addresses of 10.200.1.0/24, one of 2 ranges. Remedy: set use of all ranges to Retired", remove(o))
	refused(t, env.Client, denied, removeAll(o))
	env.Change(t, o, func() { o.Spec.Ranges[0].Use = limpetv1alpha1.RangeRetired })
	refused(t, env.Client, "new pods get addresses of 10.200.2.0/24. Remedy", remove(o))
	env.Change(t, o, func() { o.Spec.Ranges[1].Use = limpetv1alpha1.RangeRetired })
	allowed(t, env.Client, remove(o))

	o = put()
	refused(t, env.Client, denied, remove(o))
	allowed(t, env.As(t, byBreakGlass()), remove(o))

	o = put()
	refused(t, env.Client, denied, remove(o))
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "nodenetworks.limpet.dev"}}
	env.Read(t, client.ObjectKeyFromObject(crd), crd)
	allowed(t, env.Client, remove(crd))
	again := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: crd.Name, Annotations: crd.Annotations}, Spec: crd.Spec}
	testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), again.DeepCopy()) })
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) || !served(t) {
			return fmt.Errorf("get the object of the former kind: %w", err)
		}
		return nil
	})
}

// served reports whether the API server lists NodeNetworks.
func served(t *testing.T) bool {
	t.Helper()
	return env.Client.List(t.Context(), &limpetv1alpha1.NodeNetworkList{}) == nil
}

// byBreakGlass is an administrator with the group of break-glass.
func byBreakGlass() *rest.Config {
	as := rest.CopyConfig(env.Config)
	as.Impersonate = rest.ImpersonationConfig{UserName: "alice", Groups: []string{"system:masters", "limpet.dev:break-glass"}}
	return as
}
