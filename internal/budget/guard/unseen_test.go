package guard_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	admissionapi "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/budget/guard"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// lists is a part of the path of each read of budgets.
const lists = "/podunavailablebudgets"

// late is a replica whose cache never shows a budget with the name "late", and its reads past the cache.
func late(t *testing.T) (*guard.Handler, client.Reader, *testenv.Traffic) {
	t.Helper()
	serve(t)
	options := cluster.CacheOptions(needs()...)
	for o, by := range options.ByObject {
		if _, ok := o.(*policyv1beta1.PodUnavailableBudget); ok {
			by.Field = fields.OneTermNotEqualSelector("metadata.name", "late")
			options.ByObject[o] = by
		}
	}
	observed, traffic := env.Observe(t)
	handler, cached := replicaWith(t, options, observed)
	return handler, cached, traffic
}

// deletionBy asks a guard about the deletion of a pod by a user.
func deletionBy(t *testing.T, user string, pod *corev1.Pod, dryRun bool) admission.Request {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	req := admission.Request{AdmissionRequest: admissionapi.AdmissionRequest{
		Operation: admissionapi.Delete, Namespace: pod.Namespace, OldObject: runtime.RawExtension{Raw: raw}, DryRun: &dryRun,
	}}
	req.UserInfo.Username = user
	return req
}

// changeOf asks a guard about an update of a pod.
func changeOf(t *testing.T, pod *corev1.Pod, edit func(*corev1.Pod)) admission.Request {
	t.Helper()
	req := deletionBy(t, "tenant", pod, false)
	after := pod.DeepCopy()
	edit(after)
	raw, err := json.Marshal(after)
	if err != nil {
		t.Fatal(err)
	}
	req.Operation, req.Object.Raw = admissionapi.Update, raw
	return req
}

// eviction asks a guard about an eviction, as the API server does.
func eviction(pod *corev1.Pod) admission.Request {
	req := dryEviction(pod)
	req.Object.Raw = []byte(`{}`)
	return req
}

// judged asks a guard until it has judged a request, and returns the answer, and how many times budgets were read for it.
// A busy machine may need longer than the time of an answer; clients try again.
func judged(t *testing.T, handler *guard.Handler, traffic *testenv.Traffic, req admission.Request) (answer admission.Response, reads int) {
	t.Helper()
	testenv.Eventually(t, func() error {
		before := traffic.Count(lists)
		answer = handler.Handle(t.Context(), req)
		reads = traffic.Count(lists) - before
		if !answer.Allowed && answer.Result.Code == http.StatusTooManyRequests && answer.Result.Details == nil {
			return fmt.Errorf("answer %+v", answer.Result)
		}
		return nil
	})
	return answer, reads
}

// A budget that was just created beside others holds from the first request, however far the cache is behind.
// What no budget refuses by default, and a dry run, cost no read.
func TestABudgetBesideAnotherHoldsBeforeTheCacheShowsIt(t *testing.T) {
	handler, cached, traffic := late(t)
	ns := guarded(t)
	other, budget := aBudget(ns, "other", "other", intstr.FromInt32(1)), aBudget(ns, "late", "web", intstr.FromInt32(0))
	put(t, other, budget)
	set, pods := podsOf(t, ns, 2)
	for _, o := range []client.Object{other, set.StatefulSet, pods[0], pods[1]} {
		known(t, cached, o)
	}
	for name, req := range map[string]admission.Request{
		"eviction": eviction(pods[0]),
		"deletion": deletionBy(t, "tenant", pods[0], false),
		"scale-in": deletionBy(t, "system:serviceaccount:kube-system:statefulset-controller", pods[0], false),
		"update":   changeOf(t, pods[0], func(p *corev1.Pod) { p.Spec.Containers[0].Image = "other" }),
		"leaving":  changeOf(t, pods[0], func(p *corev1.Pod) { p.Labels = nil }),
	} {
		answer, n := judged(t, handler, traffic, req)
		if answer.Allowed || answer.Result.Details == nil || len(answer.Result.Details.Causes) != 1 {
			t.Errorf("%s: answer %+v, want the refusal of one budget", name, answer.Result)
		}
		if n != 1 {
			t.Errorf("%s: %d reads of budgets, want 1", name, n)
		}
	}
	before := traffic.Count(lists)
	for name, req := range map[string]admission.Request{
		"preemption": deletionBy(t, "system:kube-scheduler", pods[0], false),
		"PodGC":      deletionBy(t, "system:serviceaccount:kube-system:pod-garbage-collector", pods[0], false),
		"dry run":    deletionBy(t, "tenant", pods[0], true),
	} {
		if answer, _ := judged(t, handler, traffic, req); !answer.Allowed {
			t.Errorf("%s: answer %+v, want none of a budget", name, answer.Result)
		}
	}
	if n := traffic.Count(lists) - before; n != 0 {
		t.Errorf("%d reads of budgets for requests that need none", n)
	}
}

// A pod of a budget in the cache costs no read of budgets. Pods without a budget share their reads, at most two of
// a namespace at a time, and no other namespace waits. While budgets cannot be read, requests are answered so that a
// drain tries again. Many budgets of a namespace are not read past the cache.
func TestPodsWithoutABudgetShareTheirReads(t *testing.T) {
	const many, atOnce = 200, 2
	handler, cached, traffic := late(t)
	ns, quiet, crowded := guarded(t), guarded(t), guarded(t)
	web(t, ns, 3, intstr.FromInt32(1))
	put(t, aBudget(quiet, "other", "other", intstr.FromInt32(1)))
	for i := range 65 {
		put(t, aBudget(crowded, fmt.Sprint("b", i), "other", intstr.FromInt32(1)))
	}
	for in, name := range map[string]string{ns: "web", quiet: "other", crowded: "b64"} {
		testenv.Eventually(t, func() error {
			return cached.Get(t.Context(), client.ObjectKey{Namespace: in, Name: name}, &policyv1beta1.PodUnavailableBudget{})
		})
	}
	covered := aPod(testenv.AStatefulSet("web", 3).In(ns), 0)
	env.Read(t, client.ObjectKeyFromObject(covered), covered)
	known(t, cached, covered)
	one := func(in string) *corev1.Pod {
		return testenv.APod("bare").In(in).On("n1").Ready().Pod
	}
	for _, pod := range []*corev1.Pod{covered, one(crowded)} {
		if answer, _ := judged(t, handler, traffic, deletionBy(t, "tenant", pod, false)); !answer.Allowed || traffic.Count(lists) != 0 {
			t.Errorf("pod %s/%s: answer %+v after %d reads of budgets", pod.Namespace, pod.Name, answer.Result, traffic.Count(lists))
		}
	}
	traffic.Hold(t, "/namespaces/"+ns+lists)
	answers := make(chan admission.Response, many)
	for range many {
		req := deletionBy(t, "tenant", one(ns), false)
		go func() { answers <- handler.Handle(t.Context(), req) }()
	}
	testenv.Eventually(t, func() error {
		if n := traffic.Count("/namespaces/" + ns + lists); n != atOnce {
			return fmt.Errorf("%d reads at a time, want %d", n, atOnce)
		}
		return nil
	})
	if answer, _ := judged(t, handler, traffic, deletionBy(t, "tenant", one(quiet), false)); !answer.Allowed {
		t.Errorf("a pod of another namespace waits: %+v", answer.Result)
	}
	if answer, _ := judged(t, handler, traffic, deletionBy(t, "system:kube-scheduler", one(ns), false)); !answer.Allowed {
		t.Errorf("preemption: %+v", answer.Result)
	}
	for range many { // the API server does not answer: each pod may be one of a new budget
		if answer := <-answers; answer.Allowed || answer.Result.Code != http.StatusTooManyRequests {
			t.Errorf("answer %+v, want code %d", answer.Result, http.StatusTooManyRequests)
		}
	}
	if n := traffic.Count("/namespaces/" + ns + lists); n > many/4 { // two at a time, and each lasts for seconds
		t.Errorf("%d reads of budgets for %d pods, want few", n, many)
	}
}

// A tenant has large budgets, and ten thousand requests about pods without a budget. No answer of the API server holds
// more than a few budgets, all requests share few lists, and a budget on the last page holds.
func TestLargeBudgetsAreReadInPages(t *testing.T) {
	const budgets, page, text, requests = 20, 8, 100 << 10, 10_000
	handler, cached, traffic := late(t)
	ns := guarded(t)
	for i := range budgets {
		large := aBudget(ns, fmt.Sprintf("b%02d", i), "other", intstr.FromInt32(1))
		large.Annotations = map[string]string{"example.com/text": strings.Repeat("x", text)}
		put(t, large)
	}
	put(t, aBudget(ns, "late", "web", intstr.FromInt32(0)))
	testenv.Eventually(t, func() error {
		return cached.Get(t.Context(), client.ObjectKey{Namespace: ns, Name: fmt.Sprintf("b%02d", budgets-1)}, &policyv1beta1.PodUnavailableBudget{})
	})
	set, pods := podsOf(t, ns, 2)
	for _, o := range []client.Object{set.StatefulSet, pods[0], pods[1]} {
		known(t, cached, o)
	}
	answer, reads := judged(t, handler, traffic, deletionBy(t, "tenant", pods[0], false))
	if answer.Allowed || answer.Result.Details == nil || len(answer.Result.Details.Causes) != 1 {
		t.Errorf("answer %+v, want the refusal of the budget on the last page", answer.Result)
	}
	if want := (budgets + 1 + page - 1) / page; reads != want {
		t.Errorf("%d reads of %d budgets, want %d", reads, budgets+1, want)
	}
	req := deletionBy(t, "tenant", testenv.APod("bare").In(ns).On("n1").Ready().Pod, false)
	before := traffic.Count(lists)
	release := traffic.Hold(t, "/namespaces/"+ns+lists)
	answers := make(chan admission.Response, requests)
	for range requests {
		go func() { answers <- handler.Handle(t.Context(), req) }()
	}
	testenv.Eventually(t, func() error {
		if traffic.Count(lists) == before {
			return fmt.Errorf("no read waits")
		}
		return nil
	})
	release()
	refused := 0
	for range requests {
		if answer := <-answers; !answer.Allowed {
			refused++
			if answer.Result.Code != http.StatusTooManyRequests {
				t.Fatalf("answer %+v", answer.Result)
			}
		}
	}
	t.Logf("%d of %d requests are to be tried again, after %d reads of %d bytes at most", refused, requests, traffic.Count(lists), traffic.Largest())
	if n := traffic.Count(lists) - before; n > requests/10 {
		t.Errorf("%d reads of budgets for %d requests", n, requests)
	}
	if n := traffic.Largest(); n < text || n > (page+1)*text {
		t.Errorf("the largest answer has %d bytes, want %d budgets at most", n, page)
	}
}
