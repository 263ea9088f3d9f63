package guard_test

import (
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

const breakGlass = "limpet.dev:break-glass"

// plainUser is a client without system:masters.
func plainUser(t *testing.T, user string, groups ...string) client.Client {
	t.Helper()
	config := rest.CopyConfig(env.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	return env.As(t, config)
}

// Break-glass takes both: the group, and the verb that deploy/break-glass grants to it. An
// administrator has every verb, and is judged all the same.
func TestBreakGlass(t *testing.T) {
	serve(t)
	ns := guarded(t)
	_, pods := web(t, ns, 2, intstr.FromInt32(0))
	may := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "evictors"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"pods", "pods/eviction"}, Verbs: []string{"get", "delete", "create"}},
	}}
	bound := &rbacv1.RoleBinding{ObjectMeta: may.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "evictors"}}
	for _, user := range []string{"jane", "joe"} {
		bound.Subjects = append(bound.Subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: "User", Name: user})
	}
	env.Create(t, may, bound)
	dry := client.NewDryRunClient(plainUser(t, "joe", breakGlass))
	testenv.Eventually(t, func() error { // the API server takes a moment to know the role
		if err := dry.Delete(t.Context(), pods[0].DeepCopy()); !apierrors.IsTooManyRequests(err) {
			return fmt.Errorf("in the group, without the verb: %w, want 429", err)
		}
		return nil
	})
	refusedBy(t, env.Client.Delete(t.Context(), pods[0].DeepCopy()), "web") // an administrator
	refusedBy(t, evictAs(t.Context(), plainUser(t, "jane"), pods[0]), "web")
	for _, o := range env.Manifest(t, "deploy/break-glass/rbac.yaml") {
		env.Create(t, o)
	}
	testenv.Eventually(t, func() error { return dry.Delete(t.Context(), pods[0].DeepCopy()) })
	refusedBy(t, evictAs(t.Context(), plainUser(t, "joe"), pods[1]), "web") // the same user, without the group
	if err := evictAs(t.Context(), plainUser(t, "jane", breakGlass), pods[0]); err != nil {
		t.Errorf("eviction with the group and the verb: %v", err)
	}
}

// The command of the manual works for a person who has the documented role and no other right. The role lets no person
// become another user or group, nor do anything else.
func TestTheCommandOfBreakGlass(t *testing.T) {
	serve(t)
	_, pods := web(t, guarded(t), 2, intstr.FromInt32(0))
	for _, o := range env.Manifest(t, "deploy/break-glass/rbac.yaml") {
		env.Create(t, o)
	}
	person := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: pods[0].Namespace, Name: "alice"}}
	env.Create(t, person, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name("break-glass-of-alice")},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "limpet-break-glass-user"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: person.Namespace, Name: person.Name}},
	})
	token := &authenticationv1.TokenRequest{}
	if err := env.Client.SubResource("token").Create(t.Context(), person, token); err != nil {
		t.Fatal(err)
	}
	alice := func(user string, groups ...string) client.Client {
		config := &rest.Config{Host: env.Config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: env.Config.CAData}, BearerToken: token.Status.Token}
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
		return env.As(t, config)
	}
	glass := alice(breakGlass, breakGlass)
	testenv.Eventually(t, func() error { // the API server takes a moment to know the role
		return client.NewDryRunClient(glass).Delete(t.Context(), pods[0].DeepCopy())
	})
	for name, do := range map[string]func() error{
		"without the impersonation": func() error { return alice("").Delete(t.Context(), pods[0].DeepCopy()) },
		"as an administrator":       func() error { return alice("admin", "system:masters").Delete(t.Context(), pods[0].DeepCopy()) },
		"with another group": func() error {
			return alice(breakGlass, breakGlass, "system:masters").Delete(t.Context(), pods[0].DeepCopy())
		},
		"create a pod":             func() error { return glass.Create(t.Context(), testenv.APod("new").In(pods[0].Namespace).Pod) },
		"delete a service account": func() error { return glass.Delete(t.Context(), person.DeepCopy()) },
	} {
		if err := do(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want it forbidden", name, err)
		}
	}
	refusedBy(t, alice(breakGlass).Delete(t.Context(), pods[1].DeepCopy()), "web") // without the group
	if err := evictAs(t.Context(), glass, pods[0]); err != nil {
		t.Errorf("evict: %v", err)
	}
	if err := glass.Delete(t.Context(), pods[1].DeepCopy()); err != nil {
		t.Errorf("delete: %v", err)
	}
}

// While no controller answers, a namespace is closed or open as its label says, and break-glass
// works in both.
func TestWhileTheControllerIsAway(t *testing.T) {
	w := testenv.ReadWebhooks(t).Validating
	for _, hook := range w.Webhooks {
		if *hook.ClientConfig.Service.Path != disruption.GuardPath {
			continue
		}
		hook.ClientConfig = admissionv1.WebhookClientConfig{URL: new("https://localhost:1" + disruption.GuardPath)} // nothing answers there
		env.Create(t, &admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: hook.Name}, Webhooks: []admissionv1.ValidatingWebhook{hook},
		})
	}
	for _, o := range env.Manifest(t, "deploy/break-glass/rbac.yaml") {
		env.Create(t, o)
	}
	for value, want := range map[string]bool{policyv1beta1.LabelBudgetsOpen: true, policyv1beta1.LabelBudgetsClosed: false} {
		ns := env.Namespace(t)
		label(t, ns, value)
		pod := testenv.APod("web-0").In(ns).Ready().Pod
		create(t, pod)
		dry := client.NewDryRunClient(env.Client)
		testenv.Eventually(t, func() error {
			if err := dry.Delete(t.Context(), pod.DeepCopy()); (err == nil) != want {
				return fmt.Errorf("namespace %s: %w, want that it passes: %t", value, err, want)
			}
			return nil
		})
		if err := as(t, "jane", breakGlass).Delete(t.Context(), pod.DeepCopy()); err != nil {
			t.Errorf("namespace %s, break-glass: %v", value, err)
		}
	}
}
