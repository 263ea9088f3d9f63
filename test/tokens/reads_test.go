package tokens_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// No policy judges reads, so the roles alone decide what a stolen token of an agent reads: the
// objects of all agents, and whatever a watch of namespaces tells. It changes no namespace.
func TestWhatAStolenTokenOfAnAgentReads(t *testing.T) {
	deploy(t)
	own, other, ns := env.Node(t), env.Node(t), env.Namespace(t)
	token := env.Token(t, agent, own.Name)
	thief := env.As(t, token)
	watcher, err := client.NewWithWatch(token, client.Options{Scheme: env.Scheme, Mapper: env.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	theirs, theirPool, theirPod := shown(ns, "db-0", other), pool(other, "net"), testenv.APod("db-0").In(ns).On(other.Name).Pod
	lent := lending(ns, "db-0", loan.Loan{Home: other.Name, Phase: loan.Lent, Epoch: 1})
	env.Create(t, theirs, theirPool, theirPod, lent)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	named := client.MatchingFields{metav1.ObjectNameField: ns}

	for what, do := range map[string]request{
		"a reservation of another node":      get(theirs),
		"the reservations of all namespaces": list(&limpetv1alpha1.IPReservationList{}),
		"the reservations, by a watch":       first(watcher, &limpetv1alpha1.IPReservationList{}),
		"the loan of another node":           get(lent),
		"the loans of all namespaces":        list(&limpetv1alpha1.BorrowedAddressList{}),
		"the loans, by a watch":              first(watcher, &limpetv1alpha1.BorrowedAddressList{}),
		"a pool of another node":             get(theirPool),
		"the pods of all nodes":              list(&corev1.PodList{}),
		"a namespace, by a watch":            first(watcher, &corev1.NamespaceList{}, named),
		"its metadata, as the agent asks":    first(watcher, metadata("Namespace"), named),
		"all namespaces, by a watch":         first(watcher, &corev1.NamespaceList{}),
	} {
		t.Run("reads "+what, func(t *testing.T) { allowed(t, thief, do) })
	}
	for what, do := range map[string]request{
		"get a namespace":              get(namespace),
		"list namespaces":              list(&corev1.NamespaceList{}),
		"create a namespace":           create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: env.Name("forged")}}),
		"label a namespace":            patch(namespace, `{"metadata":{"labels":{"limpet.dev/budgets":"open"}}}`),
		"update a namespace":           update(namespace, func(n *corev1.Namespace) { n.Labels["limpet.dev/pin"] = "open" }),
		"delete a namespace":           remove(namespace),
		"delete all namespaces":        removeAll(&corev1.Namespace{}),
		"watch pools":                  first(watcher, &limpetv1alpha1.NodeIPPoolList{}),
		"watch secrets":                first(watcher, &corev1.SecretList{}, client.InNamespace("limpet-system")),
		"watch config maps":            first(watcher, &corev1.ConfigMapList{}),
		"watch service accounts":       first(watcher, &corev1.ServiceAccountList{}),
		"watch events in its own room": first(watcher, &corev1.EventList{}, client.InNamespace("default")),
		"get a pod":                    get(theirPod),
		"get its node":                 get(own.Node),
		"write the status of a pool":   patchStatus(theirPool, `{"status":{"free":0}}`),
	} {
		t.Run(what, func(t *testing.T) { refused(t, thief, byRole, do) })
	}
}

// metadata is a list of which a client asks for the metadata alone.
func metadata(kind string) client.ObjectList {
	l := &metav1.PartialObjectMetadataList{}
	l.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind + "List"))
	return l
}

// first watches objects and waits for one. A watch begins with all objects that are there.
func first(c client.WithWatch, of client.ObjectList, options ...client.ListOption) request {
	return func(ctx context.Context, _ client.Client) error {
		w, err := c.Watch(ctx, of.DeepCopyObject().(client.ObjectList), options...)
		if err != nil {
			return err
		}
		defer w.Stop()
		if event, ok := <-w.ResultChan(); !ok || event.Type != watch.Added {
			return fmt.Errorf("the watch says %+v, want an object", event)
		}
		return nil
	}
}
