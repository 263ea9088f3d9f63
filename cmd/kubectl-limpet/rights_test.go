package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/board"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/console/ui"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// holder returns the configuration of a user with a role of one namespace: all ClusterRoles that aggregate to it. The
// controller manager of a cluster does that; here is none.
func holder(t *testing.T, ns, user string, aggregated ...string) *rest.Config {
	t.Helper()
	for _, o := range env.Render(t, "deploy/default") {
		if o.GetKind() == "ClusterRole" {
			if err := env.Client.Create(t.Context(), o.DeepCopy()); client.IgnoreAlreadyExists(err) != nil {
				t.Fatal(err)
			}
		}
	}
	var roles rbacv1.ClusterRoleList
	if err := env.Client.List(t.Context(), &roles); err != nil {
		t.Fatal(err)
	}
	for _, role := range roles.Items {
		if slices.ContainsFunc(aggregated, func(to string) bool { return role.Labels["rbac.authorization.k8s.io/aggregate-to-"+to] == "true" }) {
			env.Create(t, &rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: user + "." + strings.ReplaceAll(role.Name, ":", ".")},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
			})
		}
	}
	config := rest.CopyConfig(env.Config)
	config.Impersonate.UserName = user
	return config
}

// TestTheOrdinaryRolesCoverAllKinds lets an editor write, and a viewer read, what users write.
func TestTheOrdinaryRolesCoverAllKinds(t *testing.T) {
	ns := env.Namespace(t)
	target := appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	for user, mayWrite := range map[string]bool{"editor": true, "viewer": false} {
		roles := []string{"view"}
		if mayWrite {
			roles = []string{"view", "edit"}
		}
		c, err := client.New(holder(t, ns, user, roles...), client.Options{Scheme: env.Client.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		state := testenv.APersistentPodState("web").In(ns).Requires(corev1.LabelHostname).PersistentPodState
		state.Status = appsv1beta1.PersistentPodStateStatus{}
		for _, o := range []client.Object{
			state,
			&appsv1beta1.WorkloadSpread{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
				Spec:       appsv1beta1.WorkloadSpreadSpec{TargetReference: target, Subsets: []appsv1beta1.WorkloadSpreadSubset{{Name: "a"}}},
			},
			&policyv1beta1.PodUnavailableBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
				Spec: policyv1beta1.PodUnavailableBudgetSpec{
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, MaxUnavailable: &intstr.IntOrString{IntVal: 1},
				},
			},
			&limpetv1alpha1.DistributedPodDisruptionBudget{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
				Spec: limpetv1alpha1.DistributedPodDisruptionBudgetSpec{
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, MaxUnavailable: &intstr.IntOrString{IntVal: 1},
				},
			},
		} {
			if err := c.Create(t.Context(), o); mayWrite == apierrors.IsForbidden(err) || err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("%s creates a %T: %v", user, o, err)
			}
			if err := c.Delete(t.Context(), o); mayWrite == apierrors.IsForbidden(err) {
				t.Errorf("%s deletes a %T: %v", user, o, err)
			}
		}
		lent := &limpetv1alpha1.BorrowedAddress{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-0"}}
		if err := c.Create(t.Context(), lent); !apierrors.IsForbidden(err) {
			t.Errorf("%s creates a loan: %v", user, err)
		}
		for _, kind := range []string{"persistentpodstates", "workloadspreads", "podunavailablebudgets", "ipreservations", "borrowedaddresses", "disruptionbooks", "distributedpoddisruptionbudgets"} {
			if err := list(t, c, ns, kind); err != nil {
				t.Errorf("%s lists %s: %v", user, kind, err)
			}
		}
	}
}

func list(t *testing.T, c client.Client, ns, kind string) error {
	t.Helper()
	lists := map[string]client.ObjectList{
		"persistentpodstates": &appsv1beta1.PersistentPodStateList{}, "workloadspreads": &appsv1beta1.WorkloadSpreadList{},
		"podunavailablebudgets": &policyv1beta1.PodUnavailableBudgetList{}, "ipreservations": &limpetv1alpha1.IPReservationList{},
		"borrowedaddresses": &limpetv1alpha1.BorrowedAddressList{}, "disruptionbooks": &limpetv1alpha1.DisruptionBookList{},
		"distributedpoddisruptionbudgets": &limpetv1alpha1.DistributedPodDisruptionBudgetList{},
	}
	return c.List(t.Context(), lists[kind], client.InNamespace(ns))
}

// TestWhatMayNotBeReadIsUnknown asks each command as a user who may read pods alone, and as one with the role edit, who
// may not read nodes.
func TestWhatMayNotBeReadIsUnknown(t *testing.T) {
	ns, node := env.Namespace(t), env.Node(t)
	set := testenv.AStatefulSet("web", 1).In(ns)
	env.Create(t, set.StatefulSet)
	state := testenv.APersistentPodState("web").In(ns).Requires(corev1.LabelHostname).
		Recorded("web-0", node.Name, map[string]string{corev1.LabelHostname: node.Name})
	away := testenv.APod("web-1").In(ns).On(node.Name).At("10.0.0.3").Pod
	env.Create(t, state.PersistentPodState, testenv.APod("web-0").In(ns).On(node.Name).OwnedBy(set.StatefulSet).At("10.0.0.2").Ready().Pod,
		testenv.AReservation(away, time.Now()))

	env.Create(t, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "pods"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list"}}},
	}, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "pods"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "pods"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "reader"}},
	})
	reader := rest.CopyConfig(env.Config)
	reader.Impersonate.UserName = "reader"
	stranger := rest.CopyConfig(env.Config)
	stranger.Impersonate.UserName = "stranger"
	users := map[string]*rest.Config{
		"reader": reader, "stranger": stranger, "editor": holder(t, ns, "editor", "view", "edit"), "viewer": holder(t, ns, "viewer", "view"),
	}
	for name, user := range users {
		for _, args := range []string{
			"status", "status -n " + ns, "version", "pod web-0", "explain web-0", "explain placement web-0", "explain pending web-0", "explain address web-0",
			"plan drain " + node.Name, "audit", "support-bundle -f " + t.TempDir() + "/bundle",
			"explain eviction web-0", "release web-1 --dry-run=server", "release --all --forget-place --dry-run=server", "release -l app=web --dry-run=server",
		} {
			if mayAsk := strings.HasPrefix(args, "explain eviction") || strings.HasSuffix(args, "--dry-run=server"); name == "editor" && mayAsk {
				if text, err := command(t, user, append(strings.Fields(args), "-n", ns)...); err != nil {
					t.Errorf("%s: %s: %v\n%s", name, args, err, text)
				}
				continue
			}
			text, err := command(t, user, append(strings.Fields(args), "-n", ns)...)
			if err == nil || errors.Is(err, errNo) {
				t.Errorf("%s: %s: %v, want exit status %d\n%s", name, args, err, exitError, text)
			}
			for _, guess := range []string{"any node", "no PersistentPodState", " 0/0", "0 PersistentPodStates", "Nothing needs attention", "does not exist", "none", "0 return"} {
				if strings.Contains(text, guess) || err != nil && strings.Contains(err.Error(), guess) {
					t.Errorf("%s: %s says %q of what it may not read: %v\n%s", name, args, guess, err, text)
				}
			}
		}
		pageSaysUnknown(t, name, user, ns)
	}
	r, err := as[console.Explanation](t, holder(t, ns, "editor2", "view", "edit"), "explain", "placement", "web-0", "-n", ns)
	if err == nil || !strings.HasPrefix(r.Answer, "unknown") || !strings.Contains(strings.Join(r.Because, " "), "records node "+node.Name) {
		t.Errorf("what an editor may read: %v, %+v", err, r)
	}
}

// TestWhatAnEditorIsTold is about a user of one namespace who forgets --namespace, or misspells a pod.
func TestWhatAnEditorIsTold(t *testing.T) {
	ns := env.Namespace(t)
	editor := holder(t, ns, "learner", "view", "edit")
	for args, want := range map[string]string{
		"lost": "in all namespaces", "audit": "in all namespaces", "status": "not read: nodes: you may not read them\n", "pod nope -n " + ns: "check the name",
		"explain nope -n " + ns: "check the name",
	} {
		text, err := command(t, editor, strings.Fields(args)...)
		if err == nil || errors.Is(err, errNo) || !strings.Contains(text+err.Error(), want) {
			t.Errorf("%s: %v, want %q\n%s", args, err, want, text)
			continue
		}
		if all := text + err.Error(); strings.Count(all, "nodeippools.limpet.dev") > 1 {
			t.Errorf("%s says twice what is not read:\n%s", args, all)
		}
	}
}

// pageSaysUnknown wants the page of kubectl limpet ui to name what is unread at each section that has nothing to show.
func pageSaysUnknown(t *testing.T, name string, user *rest.Config, ns string) {
	t.Helper()
	c, err := client.New(user, client.Options{Scheme: env.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	source := ui.Source{Reader: facts.Reader{Client: c, Now: time.Now}, Namespace: ns}
	b, err := source.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	shown := map[board.Section]int{board.Needs: len(b.Needs), board.Addresses: len(b.Nodes), board.Workloads: len(b.Workloads)}
	for section, n := range shown {
		unread := slices.ContainsFunc(b.Notes, func(n board.Note) bool { return n.Section == section && strings.HasPrefix(n.Text, "not ") })
		if n == 0 && !unread {
			t.Errorf("%s: the page says none in section %s, and its notes are %v", name, section, b.Notes)
		}
	}
	for _, p := range b.Programs {
		if !p.Unknown {
			t.Errorf("%s: the page knows of program %s, which may not be read", name, p.Name)
		}
	}
}
