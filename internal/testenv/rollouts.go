package testenv

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Rollouts is the Rollout of Argo, whose pods belong to ReplicaSets.
var Rollouts = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Rollout"}

// ServeRollouts has Rollouts named for spreads, served, and readable by the controller.
func (e *Env) ServeRollouts(t testing.TB) {
	t.Helper()
	e.NameKinds(t)
	e.NameSpreadKinds(t, `{"workloads":[{"Group":"argoproj.io","Version":"v1alpha1","Kind":"Rollout"}]}`)
	e.ServeKind(t, Rollouts)
	e.Create(t, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "limpet-controller-rollouts", Labels: map[string]string{"limpet.dev/aggregate-to-controller": "true"}},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{Rollouts.Group}, Resources: []string{"rollouts"}, Verbs: []string{"get", "list", "watch"}},
			{APIGroups: []string{Rollouts.Group}, Resources: []string{"rollouts/scale"}, Verbs: []string{"get"}},
		},
	})
	e.AggregateRights(t)
}

// SetOfRollout makes a ReplicaSet as the controller of Rollouts does: the label of its revision is
// not that of a Deployment.
func (e *Env) SetOfRollout(t testing.TB, rollout metav1.Object, name string, replicas int32) *appsv1.ReplicaSet {
	t.Helper()
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: rollout.GetNamespace(), Name: name, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rollout, Rollouts)},
	}}
	set.Spec.Replicas, set.Spec.Template.Spec = &replicas, APod(name).Spec
	set.Spec.Template.Labels = map[string]string{"rollouts-pod-template-hash": name}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: set.Spec.Template.Labels}
	e.Create(t, set)
	return set
}
