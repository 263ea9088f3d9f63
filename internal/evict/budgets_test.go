package evict_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/books"
	"github.com/limpet-io/limpet/internal/cluster"
	"github.com/limpet-io/limpet/internal/disruption"
	"github.com/limpet-io/limpet/internal/evict"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// asking is an Evictor that asks the budgets, and its cache.
func asking(t *testing.T) (*evict.Evictor, client.Reader) {
	t.Helper()
	needs := []cluster.Needs{disruption.Needs(), books.Needs()}
	mgr := env.NewManager(t, cluster.CacheOptions(needs...))
	if err := cluster.AddIndexes(t.Context(), mgr.GetFieldIndexer(), needs...); err != nil {
		t.Fatal(err)
	}
	judge := disruption.NewJudge(disruption.Options{
		Reader: disruption.NewReader(mgr.GetCache(), mgr.GetClient()),
		Books:  books.New(books.Options{Client: mgr.GetClient(), Cached: mgr.GetCache(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}}),
		Live:   mgr.GetAPIReader(), Clock: clock.RealClock{}, User: testenv.ControllerUser,
	})
	env.Start(t, mgr)
	return &evict.Evictor{Client: env.Client, Budgets: judge}, mgr.GetCache()
}

// entries are the entries of all books of a namespace.
func entries(t *testing.T, ns string) (all []limpetv1alpha1.DisruptionEntry) {
	t.Helper()
	var list limpetv1alpha1.DisruptionBookList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(ns)); err != nil {
		t.Fatal(err)
	}
	for _, book := range list.Items {
		all = append(all, book.Entries...)
	}
	return all
}

// Limpet asks the budgets before it deletes a pod. What it took for a deletion that failed is
// given back.
func TestBudgetsAreAskedFirst(t *testing.T) {
	evictor, in := asking(t)
	ns := env.Namespace(t)
	pub := &policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
	pub.Spec.Selector, pub.Spec.MaxUnavailable = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, new(intstr.FromInt32(1))
	set := testenv.AStatefulSet("web", 3).In(ns)
	objects := []client.Object{pub, set.StatefulSet}
	var pods []*corev1.Pod
	for i := range 3 {
		pod := testenv.APod(fmt.Sprintf("web-%d", i)).In(ns).Ready().OwnedBy(set.StatefulSet).Pod
		pod.Labels = map[string]string{"app": "web"}
		pods, objects = append(pods, pod), append(objects, pod)
	}
	env.Create(t, objects...)
	for _, o := range objects {
		testenv.Eventually(t, func() error {
			return in.Get(t.Context(), client.ObjectKeyFromObject(o), o.DeepCopyObject().(client.Object))
		})
	}
	read := pods[0].DeepCopy()
	env.Annotate(t, pods[0], "changed", "since")
	if deleted, err := evictor.Delete(t.Context(), read); deleted || !apierrors.IsConflict(err) {
		t.Errorf("a pod that changed since: deleted %t, error %v; want a conflict", deleted, err)
	}
	if all := entries(t, ns); len(all) > 0 {
		t.Errorf("entries %+v after a deletion that failed, want none", all)
	}
	if deleted, err := evictor.Delete(t.Context(), pods[0]); !deleted || err != nil {
		t.Errorf("the first pod: deleted %t, error %v", deleted, err)
	}
	if all := entries(t, ns); len(all) != 1 || all[0].Vector != "limpet" {
		t.Errorf("entries %+v, want one for Limpet", all)
	}
	var refusal *evict.RefusedError
	deleted, err := evictor.Delete(t.Context(), pods[1])
	if deleted || !errors.As(err, &refusal) || refusal.Pod.Name != "web-1" || !strings.Contains(refusal.Message, "needs 2") {
		t.Errorf("the second pod: deleted %t, error %v; want a refusal", deleted, err)
	}
}
