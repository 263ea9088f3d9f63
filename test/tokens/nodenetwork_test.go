package tokens_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// Agents read the NodeNetwork. No token of Limpet changes it.
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
	refused(t, ofController, byRole, patchStatus(o, `{"status":{"nodes":2}}`))
	refused(t, ofController, byRole, list(&limpetv1alpha1.NodeNetworkList{}))
}
