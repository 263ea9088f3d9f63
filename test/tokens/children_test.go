package tokens_test

import (
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The token of the controller writes PodDisruptionBudgets of the name of their owner, a DistributedPodDisruptionBudget, which
// it never takes away: the garbage collector removes those of an owner that does not exist.
func TestTheTokenWritesChildrenOfBudgets(t *testing.T) {
	deploy(t)
	ns, token := env.Namespace(t), env.As(t, env.Token(t, controller, env.Node(t).Name))
	child := func(name string, change func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
		pdb := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "limpet.dev/v1alpha1", Kind: "DistributedPodDisruptionBudget", Name: "db", UID: "u", Controller: new(true)},
		}}}
		pdb.Spec.Selector, pdb.Spec.MaxUnavailable = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, new(intstr.FromInt32(1))
		change(pdb)
		return pdb
	}
	as := func(*policyv1.PodDisruptionBudget) {}
	users := child("users", func(p *policyv1.PodDisruptionBudget) { p.OwnerReferences = nil })
	env.Create(t, users)
	made := child("db", as)
	allowed(t, token, create(made))
	for name, do := range map[string]request{
		"write one without an owner": create(child("db-2", func(p *policyv1.PodDisruptionBudget) { p.OwnerReferences = nil })),
		"… with another name":        create(child("db-2", as)),
		"… of a second owner": create(child("db", func(p *policyv1.PodDisruptionBudget) {
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "n"})
		})),
		"… that keeps its owner":     create(child("db", func(p *policyv1.PodDisruptionBudget) { p.OwnerReferences[0].BlockOwnerDeletion = new(true) })),
		"… that keeps its namespace": create(child("db", func(p *policyv1.PodDisruptionBudget) { p.Finalizers = []string{"example.com/stay"} })),
		"… that says who may count it": create(child("db", func(p *policyv1.PodDisruptionBudget) {
			p.Annotations = map[string]string{"limpet.dev/peers": "/evil/db"}
		})),
		"change that of a user":       update(users, func(p *policyv1.PodDisruptionBudget) { p.Spec.MaxUnavailable = new(intstr.FromInt32(0)) }),
		"own that of a user":          update(users, func(p *policyv1.PodDisruptionBudget) { p.OwnerReferences = made.OwnerReferences }),
		"delete that of a user":       remove(users),
		"take a child from its owner": update(made, func(p *policyv1.PodDisruptionBudget) { p.OwnerReferences = nil }),
		"keep a child":                update(made, func(p *policyv1.PodDisruptionBudget) { p.Finalizers = []string{"example.com/stay"} }),
		"say who may count a child": update(made, func(p *policyv1.PodDisruptionBudget) {
			p.Annotations = map[string]string{"limpet.dev/peers": "/evil/db"}
		}),
		"… that a user has marked":       update(users, func(p *policyv1.PodDisruptionBudget) { p.Labels = map[string]string{"a": "b"} }),
		"let another owner keep a child": update(made, func(p *policyv1.PodDisruptionBudget) { p.OwnerReferences[0].UID = "other" }),
	} {
		t.Run(name, func(t *testing.T) { refused(t, token, denied, do) })
	}
	allowed(t, token, update(made, func(p *policyv1.PodDisruptionBudget) {
		p.Spec.MaxUnavailable, p.Spec.MinAvailable = nil, new(intstr.FromInt32(2))
	}))
	allowed(t, token, remove(made))
}
