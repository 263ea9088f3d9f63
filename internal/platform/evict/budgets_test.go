package evict_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/evict"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// asking is an Evictor that asks the budgets, and its cache.
func asking(t *testing.T) (*evict.Evictor, *disruption.Judge, client.Reader) {
	t.Helper()
	needs := []cluster.Needs{disruption.Needs(), books.Needs()}
	mgr := env.NewManager(t, cluster.CacheOptions(needs...))
	err := errors.Join(cluster.AddIndexes(t.Context(), mgr.GetFieldIndexer(), needs...), cluster.HoldAll(t.Context(), mgr.GetCache(), needs...))
	if err != nil {
		t.Fatal(err)
	}
	judge := disruption.NewJudge(disruption.Options{
		Reader: disruption.NewReader(mgr.GetCache(), mgr.GetClient()),
		Books:  books.New(books.Options{Client: mgr.GetClient(), Cached: mgr.GetCache(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}}),
		Live:   mgr.GetAPIReader(), Clock: clock.RealClock{}, User: testenv.ControllerUser,
	})
	env.Start(t, mgr)
	mgr.GetCache().WaitForCacheSync(t.Context())
	return &evict.Evictor{Client: env.Client, Ask: judge.Leave}, judge, mgr.GetCache()
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
	evictor, _, in := asking(t)
	ns := env.Namespace(t)
	_, pods := threeOf(t, in, ns)
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

// A budget may let Limpet delete its pods whatever it counts. The pod takes a unit all the same.
func TestABudgetMayAllowLimpetEverything(t *testing.T) {
	evictor, judge, in := asking(t)
	ns := env.Namespace(t)
	_, pods := threeOf(t, in, ns, policyv1beta1.AnnotationVectors, "limpet=Allow")
	for _, pod := range pods[:2] {
		if deleted, err := evictor.Delete(t.Context(), pod); !deleted || err != nil {
			t.Errorf("pod %s: deleted %t, error %v", pod.Name, deleted, err)
		}
	}
	if all := entries(t, ns); len(all) != 2 || all[0].Vector != "limpet" {
		t.Errorf("entries %+v, want two for Limpet", all)
	}
	evict := disruption.Request{Verb: budget.VerbEvict, Pod: pods[2], User: "alice"}
	if answer, err := judge.Judge(t.Context(), evict); err != nil || !answer.Refused() {
		t.Errorf("an eviction by a user: answer %+v, error %v; want a refusal", answer, err)
	}
}

// lossy is a transport that does something before each deletion, and may lose the answer.
type lossy struct {
	http.RoundTripper
	before func()
	loses  bool
}

func (l lossy) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodDelete {
		return l.RoundTripper.RoundTrip(req)
	}
	if l.before != nil {
		l.before()
	}
	resp, err := l.RoundTripper.RoundTrip(req)
	if err != nil || !l.loses {
		return resp, err
	}
	_ = resp.Body.Close() // the answer is lost
	return nil, io.ErrUnexpectedEOF
}

// A unit is given back for a deletion that failed for certain, and that no other request
// relies on.
func TestAUnitThatMayBeInUseIsNotGivenBack(t *testing.T) {
	_, judge, in := asking(t)
	alice := func(t *testing.T, pod *corev1.Pod) {
		t.Helper()
		answer, err := judge.Judge(t.Context(), disruption.Request{Verb: budget.VerbEvict, Pod: pod, User: "alice"})
		if err != nil || answer.Refused() {
			t.Fatalf("answer to alice %+v, error %v", answer, err)
		}
	}
	for what, tc := range map[string]struct {
		first, between, loses, changes bool // alice asks first, or in between; the answer is lost; the pod has changed
		want                           int  // entries
	}{
		"a conflict":                            {changes: true},
		"an answer that is lost":                {loses: true, want: 1},
		"a conflict, and a user asked before":   {changes: true, first: true, want: 1},
		"a conflict, and a user asks meanwhile": {changes: true, between: true, want: 1},
	} {
		t.Run(what, func(t *testing.T) {
			ns := env.Namespace(t)
			pub, pods := threeOf(t, in, ns)
			pod := pods[0]
			read := pod.DeepCopy()
			if tc.changes {
				env.Annotate(t, pod, "changed", "since")
			}
			transport := lossy{loses: tc.loses}
			if tc.between {
				transport.before = func() { alice(t, pod) }
			}
			config := rest.CopyConfig(env.Config)
			config.Wrap(func(rt http.RoundTripper) http.RoundTripper {
				transport.RoundTripper = rt
				return transport
			})
			if tc.first {
				alice(t, pod)
			}
			deleted, err := (&evict.Evictor{Client: env.As(t, config), Ask: judge.Leave}).Delete(t.Context(), read)
			if deleted || err == nil {
				t.Fatalf("deleted %t, error %v; want an error", deleted, err)
			}
			if all := entries(t, ns); len(all) != tc.want {
				t.Errorf("entries %+v of budget %s after %v, want %d", all, pub.Name, err, tc.want)
			}
		})
	}
}

// threeOf creates a budget of which one pod may be unavailable, with annotations as key, value,
// and three Ready pods.
func threeOf(t *testing.T, in client.Reader, ns string, annotations ...string) (*policyv1beta1.PodUnavailableBudget, []*corev1.Pod) {
	t.Helper()
	pub := &policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
	pub.Spec.Selector, pub.Spec.MaxUnavailable = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, new(intstr.FromInt32(1))
	for i := 0; i+1 < len(annotations); i += 2 {
		metav1.SetMetaDataAnnotation(&pub.ObjectMeta, annotations[i], annotations[i+1])
	}
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
		got := o.DeepCopyObject().(client.Object)
		testenv.Eventually(t, func() error {
			if err := in.Get(t.Context(), client.ObjectKeyFromObject(o), got); err != nil {
				return err
			}
			if cluster.Behind(got.GetResourceVersion(), o.GetResourceVersion()) {
				return fmt.Errorf("the cache has %s of an older version", o.GetName())
			}
			return nil
		})
	}
	return pub, pods
}
