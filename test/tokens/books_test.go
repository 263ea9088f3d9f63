package tokens_test

import (
	"context"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// tenant is a user with all rights on pods, budgets and spreads of one namespace.
func tenant(t *testing.T, ns string) client.Client {
	t.Helper()
	all := []string{"*"}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "tenant"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: all},
		{APIGroups: []string{"apps.kruise.io"}, Resources: []string{"workloadspreads"}, Verbs: all},
		{APIGroups: []string{"policy.kruise.io"}, Resources: []string{"podunavailablebudgets"}, Verbs: all},
	}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "tenant"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "tenant"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "tenant-of-" + ns}},
	}
	env.Create(t, role, binding)
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "tenant-of-" + ns, Groups: []string{"system:authenticated"}}
	return env.As(t, config)
}

// Books and the status of spreads are written by the controller alone. The token of an agent, and a
// tenant of the namespace, can neither fill a subset by entries nor have it skipped.
func TestBooksAndTheStatusOfSpreadsAreTheControllersAlone(t *testing.T) {
	v := newVictims(t)
	ns := v.book.Namespace
	filled := func(b *limpetv1alpha1.DisruptionBook) {
		now := metav1.NewMicroTime(time.Now())
		b.Entries = []limpetv1alpha1.DisruptionEntry{{UID: "e", Use: "Placed", Subset: "a", Owner: "o", Since: now, Expires: now}}
	}
	const skipped = `{"status":{"subsetStatuses":[{"name":"a","missingReplicas":0,"replicas":7}]}}`
	owner := tenant(t, ns)
	for who, c := range map[string]client.Client{"the token of an agent": env.As(t, env.Token(t, agent, v.node.Name)), "a tenant": owner} {
		for what, do := range map[string]request{
			"create a book": create(changed(v.book, func(b *limpetv1alpha1.DisruptionBook) {
				b.Name, b.ResourceVersion, b.UID = "evil", "", ""
				filled(b)
			})),
			"fill a book":                  update(v.book, filled),
			"empty a book":                 patch(v.book, `{"entries":null}`),
			"delete a book":                remove(v.book),
			"delete all books":             removeAll(&limpetv1alpha1.DisruptionBook{}, client.InNamespace(ns)),
			"write the status of a spread": patchStatus(v.spread, skipped),
		} {
			t.Run(who+": "+what, func(t *testing.T) { refused(t, c, byRole, do) })
		}
	}
	// A tenant may write a spread, and the status in the same request does not count.
	own := &appsv1beta1.WorkloadSpread{}
	env.Read(t, client.ObjectKeyFromObject(v.spread), own)
	own.Status.ObservedGeneration, own.Status.SubsetStatuses = 7, []appsv1beta1.WorkloadSpreadSubsetStatus{{
		Name: "a", Conditions: []metav1.Condition{{Type: "Schedulable", Status: metav1.ConditionFalse, Reason: "x", LastTransitionTime: metav1.Now()}},
	}}
	allowed(t, owner, func(ctx context.Context, c client.Client) error { return c.Update(ctx, own.DeepCopy()) })
	env.Read(t, client.ObjectKeyFromObject(v.spread), own)
	if len(own.Status.SubsetStatuses) > 0 || own.Status.ObservedGeneration == 7 {
		t.Errorf("the status is the tenant's: %+v", own.Status)
	}
}
