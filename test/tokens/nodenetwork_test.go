package tokens_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// Agents and controller read the NodeNetwork. The controller writes its status. No token of Limpet changes its spec.
func TestTheNodeNetworkIsTheAdministrators(t *testing.T) {
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
