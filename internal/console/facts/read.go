package facts

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// pageSize is how many objects one request asks for, as in kubectl.
const pageSize = 500

// Reader reads facts of one cluster.
type Reader struct {
	Client client.Reader
	// Now returns the time.
	Now func() time.Time
}

// Part reads one kind of object into the facts.
type Part struct {
	// Kind is the name in Unread.
	Kind       string
	namespaced bool
	namespace  string // is read whatever the namespace of the read; empty for that
	read       func(context.Context, client.Reader, string, *Facts) error
}

// Parts that a command can ask for. The namespace of a read restricts those that have one; an
// empty namespace means all.
var (
	Nodes = listOf("nodes", false, func(f *Facts, l *corev1.NodeList) { f.Nodes = append(f.Nodes, l.Items...) })
	Pods  = listOf("pods", true, func(f *Facts, l *corev1.PodList) { f.Pods = append(f.Pods, l.Items...) })
	// Own are the pods of the namespace of Limpet, whatever the namespace of the read.
	Own = of(Namespace, listOf("pods of "+Namespace, true, func(f *Facts, l *corev1.PodList) { f.Own = append(f.Own, l.Items...) }))
	// Events are those that Limpet wrote.
	Events = listOf("events", true, func(f *Facts, l *corev1.EventList) {
		f.Events = append(f.Events, slices.DeleteFunc(l.Items, foreign)...)
	})
	Pools = listOf("nodeippools.limpet.dev", false, func(f *Facts, l *limpetv1alpha1.NodeIPPoolList) { f.Pools = append(f.Pools, l.Items...) })
	Kept  = listOf("ipreservations.limpet.dev", true, func(f *Facts, l *limpetv1alpha1.IPReservationList) {
		f.Reservations = append(f.Reservations, l.Items...)
	})
	Loans = listOf("borrowedaddresses.limpet.dev", true, func(f *Facts, l *limpetv1alpha1.BorrowedAddressList) {
		f.Loans = append(f.Loans, l.Items...)
	})
	States = listOf("persistentpodstates.apps.kruise.io", true, func(f *Facts, l *appsv1beta1.PersistentPodStateList) {
		f.States = append(f.States, l.Items...)
	})
	Spreads = listOf("workloadspreads.apps.kruise.io", true, func(f *Facts, l *appsv1beta1.WorkloadSpreadList) {
		f.Spreads = append(f.Spreads, l.Items...)
	})
	Budgets = listOf("podunavailablebudgets.policy.kruise.io", true, func(f *Facts, l *policyv1beta1.PodUnavailableBudgetList) {
		f.Budgets = append(f.Budgets, l.Items...)
	})
	Divided = listOf("distributedpoddisruptionbudgets.limpet.dev", true, func(f *Facts, l *limpetv1alpha1.DistributedPodDisruptionBudgetList) {
		f.Divided = append(f.Divided, l.Items...)
	})
	DisruptionBudgets = listOf("poddisruptionbudgets.policy", true, func(f *Facts, l *policyv1.PodDisruptionBudgetList) {
		f.DisruptionBudgets = append(f.DisruptionBudgets, l.Items...)
	})
	ReplicaSets  = listOf("replicasets.apps", true, func(f *Facts, l *appsv1.ReplicaSetList) { f.ReplicaSets = append(f.ReplicaSets, l.Items...) })
	StatefulSets = listOf("statefulsets.apps", true, func(f *Facts, l *appsv1.StatefulSetList) {
		f.StatefulSets = append(f.StatefulSets, l.Items...)
	})
	// Books tell who asked for the pods that budgets let go.
	Books = listOf("disruptionbooks.limpet.dev", true, func(f *Facts, l *limpetv1alpha1.DisruptionBookList) { f.Books = append(f.Books, l.Items...) })
)

// Read reads the parts that a command needs. A part that the user may not read, or that the
// cluster does not have, is listed as unread.
func (r Reader) Read(ctx context.Context, namespace string, parts ...Part) (*Facts, error) {
	f := &Facts{Now: r.Now()}
	for _, p := range parts {
		in := cmp.Or(p.namespace, namespace)
		err := p.read(ctx, r.Client, in, f)
		switch {
		case err == nil:
		case apierrors.IsForbidden(err) && in == "" && p.namespaced:
			f.Unread = append(f.Unread, Unread{Kind: p.Kind, Reason: "you may not read them in all namespaces"})
		case apierrors.IsForbidden(err):
			f.Unread = append(f.Unread, Unread{Kind: p.Kind, Reason: "you may not read them"})
		case meta.IsNoMatchError(err), apierrors.IsNotFound(err): // a kind whose CRD is deleted in between is not found
			f.Unread = append(f.Unread, Unread{Kind: p.Kind, Reason: "the cluster does not serve them: apply deploy/crds", NotServed: true})
		default:
			return nil, fmt.Errorf("read %s: %w", p.Kind, err)
		}
	}
	return f, nil
}

// of restricts a part to a namespace.
func of(namespace string, p Part) Part {
	p.namespace = namespace
	return p
}

// listOf returns a part that lists a kind in pages.
func listOf[L client.ObjectList](kind string, namespaced bool, add func(*Facts, L)) Part {
	return Part{Kind: kind, namespaced: namespaced, read: pages(namespaced, made[L], add)}
}

// pages returns a function that lists a kind in pages.
func pages[L client.ObjectList](namespaced bool, made func() L, add func(*Facts, L)) func(context.Context, client.Reader, string, *Facts) error {
	return func(ctx context.Context, r client.Reader, namespace string, f *Facts) error {
		options := []client.ListOption{client.Limit(pageSize)}
		if namespaced {
			options = append(options, client.InNamespace(namespace))
		}
		for next := ""; ; {
			page := made()
			if err := r.List(ctx, page, append(options, client.Continue(next))...); err != nil {
				return err
			}
			add(f, page)
			if next = page.GetContinue(); next == "" {
				return nil
			}
		}
	}
}

func foreign(e corev1.Event) bool {
	return e.ReportingController != Controller && e.Source.Component != Controller && e.Source.Component != Agent
}
