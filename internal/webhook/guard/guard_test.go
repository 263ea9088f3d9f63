package guard_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

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

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/internal/webhook/guard"
)

const webhookName = "guarded.pods.limpet.dev"

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env))
}

// watchman is a guard that notes the requests, and refuses all while it is told to.
type watchman struct {
	mu      sync.Mutex
	seen    []guard.Request
	verdict guard.Verdict
}

func (w *watchman) Name() string { return "watchman" }

func (w *watchman) Judge(_ context.Context, r guard.Request) (guard.Verdict, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, r)
	return w.verdict, nil
}

func (w *watchman) take() []guard.Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	w.seen = nil
	return seen
}

func (w *watchman) refuse(v guard.Verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.verdict = v
}

// installed installs the webhook of the guards, with match conditions of the test's own.
func installed(t *testing.T, g guard.Guard, conditions func([]admissionv1.MatchCondition) []admissionv1.MatchCondition) {
	t.Helper()
	all := testenv.ReadWebhooks(t)
	all.Mutating.Webhooks = nil
	var kept []admissionv1.ValidatingWebhook
	for _, w := range all.Validating.Webhooks {
		if w.Name == webhookName {
			w.MatchConditions = conditions(w.MatchConditions)
			w.TimeoutSeconds = new(int32(10)) // machines that test are busy
			kept = append(kept, w)
		}
	}
	if len(kept) != 1 {
		t.Fatalf("deploy/controller/webhooks.yaml has %d webhooks %s", len(kept), webhookName)
	}
	all.Validating.Webhooks = kept
	env.ServeWebhooks(t, all, func(string) http.Handler {
		return &webhook.Admission{Handler: &guard.Handler{Guards: []guard.Guard{g}, Live: env.Client}}
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

var verbs = map[guard.Verb][]do{
	guard.Delete: {deletePod, deleteCollection},
	guard.Evict:  {evict},
	guard.Update: {update},
	guard.Resize: {resize},
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
	installed(t, w, func([]admissionv1.MatchCondition) []admissionv1.MatchCondition { return nil })
	testenv.Eventually(t, func() error { // the API server takes a moment to know the webhook
		if err := update(t.Context(), runningPod(t, env.Namespace(t)), true); err != nil {
			return err
		}
		if len(w.take()) == 0 {
			return fmt.Errorf("the webhook is not called")
		}
		return nil
	})
	for verb, ways := range verbs {
		for i, way := range ways {
			t.Run(fmt.Sprintf("%s %d", verb, i), func(t *testing.T) {
				pod := runningPod(t, env.Namespace(t))
				w.refuse(guard.Verdict{Refused: true, Message: "one pod must stay"})
				w.take()
				err := way(t.Context(), pod.DeepCopy(), false)
				if !apierrors.IsTooManyRequests(err) {
					t.Errorf("a refusal: %v, want that the client tries again later", err)
				}
				w.refuse(guard.Verdict{})
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
						if changes := verb == guard.Update || verb == guard.Resize; (r.Changed != nil) != changes {
							t.Errorf("changed pod %v, want one: %t", r.Changed, changes)
						}
					}
				}
			})
		}
	}
	t.Run("an eviction of a pod that is gone", func(t *testing.T) {
		gone := testenv.APod("gone").In(env.Namespace(t)).Pod
		if err := evict(t.Context(), gone, false); !apierrors.IsNotFound(err) {
			t.Errorf("eviction: %v, want not found", err)
		}
	})
}

// As long as there are no guards, the manifest keeps every pod from being sent.
func TestMatchConditionsKeepTheGuardsOutOfTheWay(t *testing.T) {
	env.Create(t, testenv.ANode("n1").WithRoom(100, 64).Node)
	w := &watchman{verdict: guard.Verdict{Refused: true}}
	installed(t, w, func(declared []admissionv1.MatchCondition) []admissionv1.MatchCondition {
		if len(declared) == 0 {
			t.Error("the manifest has no match condition")
		}
		return declared
	})
	for verb, ways := range verbs {
		for _, way := range ways {
			if err := way(t.Context(), runningPod(t, env.Namespace(t)), false); err != nil {
				t.Errorf("%s: %v", verb, err)
			}
		}
	}
	if seen := w.take(); len(seen) > 0 {
		t.Errorf("%d requests were sent, want none", len(seen))
	}
}

func TestWithoutGuardsEveryRequestPasses(t *testing.T) {
	answer := (&guard.Handler{}).Handle(t.Context(), admission.Request{})
	if !answer.Allowed {
		t.Errorf("answer %+v, want that the request passes", answer)
	}
}

// A pod that cannot be read is no fault of the client, which may try again.
func TestAnEvictionWhosePodCannotBeReadMayBeTriedAgain(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	handler := guard.Handler{Guards: []guard.Guard{&watchman{}}, Live: env.Client}
	answer := handler.Handle(ctx, admission.Request{AdmissionRequest: admissionapi.AdmissionRequest{
		Operation: admissionapi.Create, SubResource: "eviction", Namespace: "default", Name: "web-0", Object: runtime.RawExtension{Raw: []byte(`{}`)},
	}})
	if answer.Allowed || answer.Result.Code != http.StatusServiceUnavailable {
		t.Errorf("answer %+v, want code %d", answer.Result, http.StatusServiceUnavailable)
	}
}

func TestRefusalSaysWhenToTryAgain(t *testing.T) {
	w := &watchman{verdict: guard.Verdict{Refused: true, Message: "one pod must stay", RetryAfter: 6500 * time.Millisecond}}
	handler := guard.Handler{Guards: []guard.Guard{w}}
	answer := handler.Handle(t.Context(), admission.Request{AdmissionRequest: admissionapi.AdmissionRequest{
		Operation: admissionapi.Delete, OldObject: runtime.RawExtension{Raw: []byte(`{"metadata":{"name":"web-0"}}`)},
	}})
	if r := answer.Result; answer.Allowed || r.Code != http.StatusTooManyRequests || r.Details == nil || r.Details.RetryAfterSeconds != 7 {
		t.Errorf("answer %+v, want a refusal for seven seconds", answer)
	}
}
