package guard_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// editor is a user who may change pods everywhere, and budgets only where a Role says so.
func editor(t *testing.T) client.Client {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "pod-editors"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "update"}},
	}}
	bound := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name}}
	bound.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "editor"}}
	env.Create(t, role, bound)
	c, probe := plainUser(t, "editor"), testenv.APod("none").Pod
	testenv.Eventually(t, func() error { // the API server takes a moment to know the role
		if err := c.Update(t.Context(), probe.DeepCopy()); !apierrors.IsNotFound(err) {
			return fmt.Errorf("update of a pod that is not there: %w, want 404", err)
		}
		return nil
	})
	return c
}

// A user who may update a budget may exempt its pods, also when no unit is left. No other user may.
func TestWhoMayChangeABudgetMayExemptItsPods(t *testing.T) {
	serve(t)
	user := editor(t)
	exempt := map[string]func(*corev1.Pod){
		"an annotation": func(p *corev1.Pod) {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, policyv1beta1.AnnotationNoProtect, "true")
		},
		"a label that the budget ignores": func(p *corev1.Pod) { p.Labels["canary"] = "true" },
	}
	for name, edit := range exempt {
		t.Run(name, func(t *testing.T) {
			ns := guarded(t)
			pub := aBudget(ns, "web", "web", intstr.FromInt32(0))
			pub.Spec.IgnoredPodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "true"}}
			put(t, pub)
			_, pods := podsOf(t, ns, 2)
			change := func(c client.Client, edit func(*corev1.Pod)) error {
				after := pods[0].DeepCopy()
				edit(after)
				return c.Update(t.Context(), after)
			}
			refusedBy(t, change(user, edit), "web")
			role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "budgets"}, Rules: []rbacv1.PolicyRule{
				{APIGroups: []string{"policy.kruise.io"}, Resources: []string{"podunavailablebudgets"}, ResourceNames: []string{"web"}, Verbs: []string{"update"}},
			}}
			bound := &rbacv1.RoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name}}
			bound.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "editor"}}
			env.Create(t, role, bound)
			testenv.Eventually(t, func() error { return change(client.NewDryRunClient(user), edit) })
			refusedBy(t, change(user, func(p *corev1.Pod) { p.Labels["app"] = "other" }), "web") // it would leave
			refusedBy(t, change(user, func(p *corev1.Pod) {
				edit(p)
				p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "mine", UID: "mine"}}
			}), "web")
			if err := change(user, edit); err != nil {
				t.Error(err)
			}
			if all := booksOf(t, ns); slices.ContainsFunc(all, func(b limpetv1alpha1.DisruptionBook) bool { return len(b.Entries) > 0 }) {
				t.Errorf("books %+v, want no entry: the pod stays", all)
			}
		})
	}
}
