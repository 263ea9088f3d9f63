package guard_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionapi "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/budget/guard"
	"github.com/limpet-io/limpet/internal/testenv"
)

// watchman is a judge that notes the requests, and answers what it is told to.
type watchman struct {
	mu     sync.Mutex
	seen   []disruption.Request
	answer disruption.Answer
}

func (w *watchman) Judge(_ context.Context, r disruption.Request) (disruption.Answer, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, r)
	return w.answer, nil
}

// refused is the answer of a judge that keeps a pod.
func refused(message string, why budget.Reason, by ...string) disruption.Answer {
	return disruption.Answer{Decision: budget.Decision{Verdict: budget.Refused, Reason: why, Message: message, Blocking: by}}
}

func (w *watchman) take() []disruption.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	w.seen = nil
	return seen
}

func (w *watchman) say(a disruption.Answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = a
}

// installed installs the webhooks of the guards as the manifest has them, with a guard of the
// test's own.
func installed(t *testing.T, w *watchman) {
	t.Helper()
	install(t, &guard.Handler{Judge: w.Judge, Live: env.Client})
}

// install installs the webhooks with a handler.
func install(t *testing.T, handler admission.Handler) {
	t.Helper()
	all := testenv.ReadWebhooks(t)
	all.Mutating.Webhooks = nil
	all.Validating.Webhooks = slices.DeleteFunc(all.Validating.Webhooks, func(w admissionv1.ValidatingWebhook) bool {
		return *w.ClientConfig.Service.Path != disruption.GuardPath
	})
	if len(all.Validating.Webhooks) != 3 {
		t.Fatalf("deploy/controller/webhooks.yaml has %d webhooks of guards", len(all.Validating.Webhooks))
	}
	env.ServeWebhooks(t, all, func(string) http.Handler {
		return &webhook.Admission{Handler: handler}
	})
	ns := guarded(t)
	testenv.Eventually(t, func() error { // the API server takes a moment to know the webhooks
		err := evictAs(t.Context(), env.Client, testenv.APod(disruption.ProbeName).In(ns).Pod, metav1.DryRunAll)
		if !hasCause(err, disruption.CauseProbe) {
			return fmt.Errorf("a probe is answered with %w", err)
		}
		return nil
	})
}

// do performs one verb on a pod.
type do func(ctx context.Context, pod *corev1.Pod, dryRun bool) error

func deletePod(ctx context.Context, pod *corev1.Pod, dryRun bool) error {
	options := []client.DeleteOption{client.GracePeriodSeconds(0)}
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	return env.Client.Delete(ctx, pod, options...)
}

func deleteCollection(ctx context.Context, pod *corev1.Pod, dryRun bool) error {
	options := []client.DeleteAllOfOption{client.InNamespace(pod.Namespace), client.MatchingLabels(pod.Labels), client.GracePeriodSeconds(0)}
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	return env.Client.DeleteAllOf(ctx, &corev1.Pod{}, options...)
}

func evict(ctx context.Context, pod *corev1.Pod, dryRun bool) error {
	e := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}}
	if dryRun {
		e.DeleteOptions.DryRun = []string{metav1.DryRunAll}
	}
	return env.Client.SubResource("eviction").Create(ctx, pod, e)
}

func update(ctx context.Context, pod *corev1.Pod, dryRun bool) error {
	var options []client.UpdateOption
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	pod.Spec.Containers[0].Image = "example.com/other"
	return env.Client.Update(ctx, pod, options...)
}

func resize(ctx context.Context, pod *corev1.Pod, dryRun bool) error {
	patch := []byte(`{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"2"}}}]}}`)
	var options []client.SubResourcePatchOption
	if dryRun {
		options = append(options, client.DryRunAll)
	}
	return env.Client.SubResource("resize").Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, patch), options...)
}

// sinceResize leaves a resize out where the API server does not know it.
func sinceResize(t *testing.T, resizes bool) {
	t.Helper()
	if resizes {
		env.Since(t, 33, "subresource resize of pods")
	}
}

var ways = map[budget.Verb][]do{
	budget.VerbDelete: {deletePod, deleteCollection},
	budget.VerbEvict:  {evict},
	budget.VerbUpdate: {update},
	budget.VerbResize: {resize},
}

func runningPod(t *testing.T, ns string) *corev1.Pod {
	t.Helper()
	pod := testenv.APod("web-0").In(ns).On("n1").Ready()
	pod.Labels = map[string]string{"app": "web"}
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
	env.Create(t, pod.Pod)
	return pod.Pod
}

func TestEveryVerbAsksTheGuards(t *testing.T) {
	env.Create(t, testenv.ANode("n1").WithRoom(100, 64).Node) // a resize asks for the pod's node
	w := &watchman{}
	installed(t, w)
	for verb, list := range ways {
		for i, way := range list {
			t.Run(fmt.Sprintf("%s %d", verb, i), func(t *testing.T) {
				sinceResize(t, verb == budget.VerbResize)
				pod := runningPod(t, guarded(t))
				w.say(refused("one pod must stay", ""))
				w.take()
				err := way(t.Context(), pod.DeepCopy(), false)
				if !apierrors.IsTooManyRequests(err) {
					t.Errorf("a refusal: %v, want that the client tries again later", err)
				}
				w.say(disruption.Answer{Decision: budget.Decision{Verdict: budget.Allowed, Reason: budget.ReasonUnprotected}})
				w.take()
				for _, dryRun := range []bool{true, false} {
					if err := way(t.Context(), pod.DeepCopy(), dryRun); err != nil {
						t.Fatalf("dry run %t: %v", dryRun, err)
					}
					seen := w.take()
					if len(seen) == 0 {
						t.Fatalf("dry run %t: no request", dryRun)
					}
					for _, r := range seen { // the API server asks again when the pod changes under a deletion
						if r.Verb != verb || r.DryRun != dryRun || r.Pod.UID != pod.UID || r.User == "" {
							t.Errorf("request %s of pod %s by %q, dry run %t; want %s of %s, dry run %t", r.Verb, r.Pod.UID, r.User, r.DryRun, verb, pod.UID, dryRun)
						}
						if changes := verb == budget.VerbUpdate || verb == budget.VerbResize; (r.Changed != nil) != changes {
							t.Errorf("changed pod %v, want one: %t", r.Changed, changes)
						}
					}
				}
			})
		}
	}
	t.Run("an eviction of a pod that is gone", func(t *testing.T) {
		gone := testenv.APod("gone").In(guarded(t)).Pod
		if err := evict(t.Context(), gone, false); !apierrors.IsNotFound(err) {
			t.Errorf("eviction: %v, want not found", err)
		}
	})
}

// A pod that cannot be read is no fault of the client, which may try again.
func TestAnEvictionWhosePodCannotBeReadMayBeTriedAgain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	handler := guard.Handler{Judge: new(watchman).Judge, Live: env.Client}
	answer := handler.Handle(ctx, admission.Request{AdmissionRequest: admissionapi.AdmissionRequest{
		Operation: admissionapi.Create, SubResource: "eviction", Namespace: "default", Name: "web-0", Object: runtime.RawExtension{Raw: []byte(`{}`)},
	}})
	if answer.Allowed || answer.Result.Code != http.StatusTooManyRequests {
		t.Errorf("answer %+v, want code %d", answer.Result, http.StatusTooManyRequests)
	}
}

// A refusal names each budget as the cause that drains and autoscalers know, and no time to
// wait: client libraries would repeat the request silently.
func TestARefusalIsTheOneOfADisruptionBudget(t *testing.T) {
	w := &watchman{answer: refused("one pod must stay", budget.ReasonExhausted, "a", "b")}
	handler := guard.Handler{Judge: w.Judge}
	answer := handler.Handle(t.Context(), deletion(`{"metadata":{"name":"web-0"}}`))
	want := &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: "one pod must stay",
		Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{
			{Type: "DisruptionBudget", Message: "PodUnavailableBudget a: BudgetExhausted"}, {Type: "DisruptionBudget", Message: "PodUnavailableBudget b: BudgetExhausted"},
		}},
	}
	if diff := cmp.Diff(want, answer.Result); diff != "" || answer.Allowed {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

// A pod that is gone ends a drain.
func TestARequestForAPredecessorIsNotFound(t *testing.T) {
	w := &watchman{answer: refused("rebuilt", budget.ReasonStale)}
	handler := guard.Handler{Judge: w.Judge}
	answer := handler.Handle(t.Context(), deletion(`{"metadata":{"name":"web-0"}}`))
	if r := answer.Result; answer.Allowed || r.Code != http.StatusNotFound || r.Reason != metav1.StatusReasonNotFound || r.Details.Name != "web-0" {
		t.Errorf("answer %+v, want that the pod is not found", answer)
	}
}

// Pods that terminate or have ended pass, whatever a guard says.
func TestEndingPodsPass(t *testing.T) {
	w := &watchman{answer: refused("", "")}
	handler := guard.Handler{Judge: w.Judge}
	for _, pod := range []string{
		`{"metadata":{"name":"web-0","deletionTimestamp":"2026-01-01T00:00:00Z"}}`,
		`{"metadata":{"name":"web-0"},"status":{"phase":"Failed"}}`,
		`{"metadata":{"name":"web-0"},"status":{"phase":"Succeeded"}}`,
		`{"metadata":{"name":"web-0","annotations":{"kubernetes.io/config.mirror":"x"}}}`,
	} {
		if answer := handler.Handle(t.Context(), deletion(pod)); !answer.Allowed {
			t.Errorf("pod %s: %+v, want that the deletion passes", pod, answer.Result)
		}
	}
	if len(w.take()) > 0 {
		t.Error("the guard was asked")
	}
}

func deletion(pod string) admission.Request {
	return admission.Request{AdmissionRequest: admissionapi.AdmissionRequest{
		Operation: admissionapi.Delete, OldObject: runtime.RawExtension{Raw: []byte(pod)},
	}}
}
