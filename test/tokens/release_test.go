package tokens_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// written returns a patch of managed fields: so many programs wrote the same fields.
func written(programs int, fields string) string {
	entries := make([]string, programs)
	for i := range entries {
		entries[i] = fmt.Sprintf(`{"manager":"m%d","operation":"Apply","apiVersion":"limpet.dev/v1alpha1","fieldsType":"FieldsV1","fieldsV1":%s}`, i, fields)
	}
	return `{"metadata":{"managedFields":[` + strings.Join(entries, ",") + `]}}`
}

// TestAUserGivesUpReservationsOnly has an editor of a namespace, as the aggregated role makes one. It marks a reservation
// of its namespace, and writes nothing else of it, nor anything of another namespace.
func TestAUserGivesUpReservationsOnly(t *testing.T) {
	deploy(t)
	node, ns, foreign := env.Node(t), env.Namespace(t), env.Namespace(t)
	reserved := func(ns, pod string) *limpetv1alpha1.IPReservation {
		o := shown(ns, pod, node)
		o.Status.State, o.Status.Until = limpetv1alpha1.IPReserved, &metav1.Time{Time: time.Date(2099, 1, 2, 3, 4, 5, 0, time.UTC)}
		return o
	}
	mine, theirs, attached := reserved(ns, "web-0"), reserved(foreign, "db-0"), shown(ns, "web-1", node)
	env.Create(t, mine, theirs, attached, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "tenant"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "tenant"}},
	})
	config := rest.CopyConfig(env.Config)
	config.Impersonate.UserName = "tenant"
	tenant, err := client.New(config, client.Options{Scheme: env.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	mark := func(value string) string {
		return fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, limpetv1alpha1.LabelRelease, value)
	}
	const end = "20990102T030405Z"
	testenv.Eventually(t, func() error { // the controller manager of a cluster aggregates the role; here is none
		var edit, release rbacv1.ClusterRole
		if err := env.Client.Get(t.Context(), client.ObjectKey{Name: "edit"}, &edit); err != nil {
			return err
		}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Name: "limpet-release"}, &release); err != nil {
			return err
		}
		edit.Rules = release.Rules
		return env.Client.Update(t.Context(), &edit)
	})
	for name, tc := range map[string]struct {
		by string
		do request
	}{
		"mark an attached address":       {denied, patch(attached, mark(end))},
		"mark another time":              {denied, patch(mine, mark("20990102T030406Z"))},
		"change addresses with the mark": {denied, patch(mine, `{"metadata":{"labels":{"limpet.dev/release":"`+end+`"}},"status":{"ips":"10.0.0.9"}}`)},
		"change the node":                {denied, patch(mine, `{"status":{"node":"other"}}`)},
		"take the object from its node":  {denied, patch(mine, `{"metadata":{"labels":{"limpet.dev/node":null}}}`)},
		"add an annotation":              {denied, patch(mine, `{"metadata":{"annotations":{"a":"b"}}}`)},
		"add a finalizer":                {denied, patch(mine, `{"metadata":{"finalizers":["example.com/stay"]}}`)},
		"write long names of fields":     {denied, patch(mine, written(1, `{"f:metadata":{"f:annotations":{"f:`+strings.Repeat("x", 1000)+`":{}}}}`))},
		"write fields below the label":   {denied, patch(mine, written(1, `{"f:metadata":{"f:labels":{"f:limpet.dev/release":{"f:`+strings.Repeat("x", 1000)+`":{}}}}}`))},
		"be many programs":               {denied, patch(mine, written(17, `{"f:metadata":{"f:labels":{"f:limpet.dev/release":{}}}}`))},
		"remove the owner":               {denied, patch(mine, `{"metadata":{"ownerReferences":null}}`)},
		"mark in another namespace":      {byRole, patch(theirs, mark(end))},
		"update":                         {byRole, update(mine, func(o *limpetv1alpha1.IPReservation) { o.Labels[limpetv1alpha1.LabelRelease] = end })},
		"create":                         {byRole, create(reserved(ns, "web-2"))},
		"delete":                         {byRole, remove(mine)},
	} {
		t.Run(name, func(t *testing.T) { refused(t, tenant, tc.by, tc.do) })
	}
	agentOf := env.As(t, env.Token(t, agent, node.Name))
	refused(t, agentOf, denied, update(mine, func(o *limpetv1alpha1.IPReservation) { o.Labels[limpetv1alpha1.LabelRelease] = end }))
	allowed(t, tenant, patch(mine, mark(end)))
	allowed(t, tenant, patch(mine, `{"metadata":{"labels":{"limpet.dev/release":null}}}`))
	allowed(t, tenant, func(ctx context.Context, c client.Client) error { // as kubectl apply --server-side does
		return c.Patch(ctx, mine.DeepCopy(), client.RawPatch(types.ApplyPatchType, fmt.Appendf(nil,
			`{"apiVersion":"limpet.dev/v1alpha1","kind":"IPReservation","metadata":{"name":%q,"labels":{%q:%q}}}`, mine.Name, limpetv1alpha1.LabelRelease, end,
		)), client.FieldOwner("tenant"), client.DryRunAll)
	})
	allowed(t, tenant, patch(mine, mark(end)))
	allowed(t, agentOf, update(mine, func(o *limpetv1alpha1.IPReservation) { // as the agent does: its objects have no mark
		delete(o.Labels, limpetv1alpha1.LabelRelease)
		o.Status.State, o.Status.Until = limpetv1alpha1.IPAttached, nil
	}))
}

// TestAnOwnerOfANamespaceForgesNoReservation has a tenant that may do anything in its namespace. It creates no
// IPReservation and changes none: it marks one, or deletes it, and the agent shows it again.
func TestAnOwnerOfANamespaceForgesNoReservation(t *testing.T) {
	deploy(t)
	node, ns := env.Node(t), env.Namespace(t)
	mine := shown(ns, "web-0", node)
	mine.Status.State, mine.Status.Until = limpetv1alpha1.IPReserved, &metav1.Time{Time: time.Date(2099, 1, 2, 3, 4, 5, 0, time.UTC)}
	env.Create(t, mine, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "owner"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "owner"}},
	})
	config := rest.CopyConfig(env.Config)
	config.Impersonate.UserName = "owner"
	owner := env.As(t, config)
	fat := strings.Repeat("x", 200<<10)
	type reservation = *limpetv1alpha1.IPReservation
	for name, do := range map[string]request{
		"create":                         create(shown(ns, "web-1", node)),
		"create for a node without one":  create(changed(shown(ns, "web-1", node), func(r reservation) { r.Status.Node, r.OwnerReferences = "none", nil })),
		"create a fat one":               create(changed(shown(ns, "web-1", node), func(r reservation) { r.Annotations = map[string]string{"a": fat} })),
		"apply on the server":            applied(shown(ns, "web-1", node), `{"apiVersion":"limpet.dev/v1alpha1","kind":"IPReservation","metadata":{"name":"web-1.eth0.net.`+node.Name+`"},"status":{"node":"`+node.Name+`","network":"net","interface":"eth0","pod":"web-1","ips":"10.0.0.5","state":"Attached"}}`),
		"update to other addresses":      update(mine, func(r reservation) { r.Status.IPs = "10.0.0.9" }),
		"update to another node":         update(mine, func(r reservation) { r.Status.Node = "other" }),
		"make a fat one":                 update(mine, func(r reservation) { r.Annotations = map[string]string{"a": fat} }),
		"make another owner":             update(mine, func(r reservation) { r.OwnerReferences[0].UID = "forged" }),
		"invent managed fields":          patch(mine, written(17, `{"f:metadata":{"f:labels":{"f:limpet.dev/release":{}}}}`)),
		"mark another time than the end": update(mine, func(r reservation) { r.Labels[limpetv1alpha1.LabelRelease] = "20990102T030406Z" }),
	} {
		t.Run(name, func(t *testing.T) { refused(t, owner, denied, do) })
	}
	allowed(t, owner, update(mine, func(r reservation) { r.Labels[limpetv1alpha1.LabelRelease] = "20990102T030405Z" }))
	allowed(t, env.As(t, env.Token(t, agent, node.Name)), create(shown(ns, "web-2", node)))
	allowed(t, env.Client, create(shown(ns, "web-3", node))) // an administrator, as the restore of a backup
	allowed(t, owner, remove(mine))
}
