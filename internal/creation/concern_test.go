package creation_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/creation"
	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// calls records which webhooks were called.
type calls struct {
	mu    sync.Mutex
	names []string
}

func (c *calls) serve(name string) http.Handler {
	return &webhook.Admission{Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.names = append(c.names, name)
		return admission.Allowed("")
	})}
}

func (c *calls) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := c.names
	c.names = nil
	slices.Sort(names)
	return names
}

// wantCalls are the webhooks that must be called for each concern in a namespace with a label for
// spreads, or without one. A pod is sent once, and a pod that may have a subset to that webhook.
func wantCalls(label string, pod *corev1.Pod) []string {
	concern := creation.ConcernOf(pod)
	subset := creation.MayHaveSubset(pod)
	switch {
	case concern == creation.Nothing, concern == creation.Subset && label == "":
		return nil
	case concern == creation.Retention:
		return []string{"retained.pods.limpet.dev"}
	case label == "":
		return []string{"pinned.pods.limpet.dev"}
	case !subset:
		return []string{"warned.pods.limpet.dev"}
	case label == "open":
		return []string{"spread.pods.limpet.dev"}
	}
	return []string{"closed.spread.pods.limpet.dev"}
}

// owners are owner references of every kind of workload, with and without control.
func owners() []*metav1.OwnerReference {
	kinds := []struct{ apiVersion, kind string }{
		{"apps/v1", "StatefulSet"},
		{"apps/v1", "ReplicaSet"},
		{"apps/v1", "DaemonSet"},
		{"batch/v1", "Job"},
		{"v1", "ReplicationController"},
		{"v1", "Node"},
		{"apps.kruise.io/v1beta1", "StatefulSet"},
		{"apps.kruise.io/v1alpha1", "DaemonSet"}, // names return, as far as Kubernetes can know
		{"batch.volcano.sh/v1alpha1", "Job"},
		{"example.com/v1", "GameServerSet"},
		{"v1", "Pod"},
		{"apps/v1", "Job"}, // kinds that no group has
		{"batch/v1", "ReplicaSet"},
		{"v1", "DaemonSet"},
	}
	refs := []*metav1.OwnerReference{nil}
	for _, k := range kinds {
		for _, controller := range []*bool{nil, new(false), new(true)} {
			refs = append(refs, &metav1.OwnerReference{APIVersion: k.apiVersion, Kind: k.kind, Name: "w", UID: "u", Controller: controller})
		}
	}
	return refs
}

// TestMatchConditionsSayWhatConcernOfSays creates pods of every kind against the match
// conditions of deploy/controller/webhooks.yaml.
func TestMatchConditionsSayWhatConcernOfSays(t *testing.T) {
	labels := map[string]string{"": env.Namespace(t)}
	for _, label := range []string{"open", "closed"} {
		labels[label] = env.Namespace(t)
		env.Patch(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: labels[label]}}, `{"metadata":{"labels":{"limpet.dev/spreads":"`+label+`"}}}`)
	}
	var called calls
	webhooks := testenv.ReadWebhooks(t)
	env.ServeWebhooks(t, webhooks, called.serve)
	t.Cleanup(func() { unasked(t, &called, webhooks, labels[""]) })
	for label, ns := range labels { // the API server takes a moment to know the webhooks and the labels
		testenv.Eventually(t, func() error {
			pod := aPod(ns, false, owners()[3], map[string]string{reservation.ModeAnnotation: "required"})
			create(t, pod)
			if got, want := called.take(), wantCalls(label, pod); !slices.Equal(got, want) {
				return fmt.Errorf("webhooks %v are called in a namespace with label %q, want %v", got, label, want)
			}
			return nil
		})
	}
	annotations := []map[string]string{
		nil,
		{"example.com/other": "x"},
		{reservation.RetainAnnotation: "10"},
		{reservation.RetainAnnotation: ""},
		{reservation.ModeAnnotation: "required"},
		{reservation.KeepAnnotation: "10m"},
		{reservation.KeepAnnotation: "0"},
		{reservation.OwnerAnnotation: "db"},
		{reservation.OwnerAnnotation: "db", reservation.KeepAnnotation: "10m"},
		{reservation.KeepAnnotation: ""},
		{policyv1beta1.AnnotationDrainFirst: "10s"},
		{policyv1beta1.AnnotationLifecycle: "x"},
		{reservation.NetworkSelections[0]: `[{"name":"a","ipam-claim-reference":"b"}]`},
		{reservation.NetworkSelections[0]: "a"},
		{reservation.RetainAnnotation: "10", reservation.ModeAnnotation: "required", "example.com/other": "x"},
	}
	seen := map[string]int{}
	for _, owner := range owners() {
		for _, named := range []bool{true, false} {
			for _, a := range annotations {
				for label, ns := range labels {
					pod := aPod(ns, named, owner, a)
					pod.Spec.HostNetwork = len(seen)%2 == 1 // pods of both sorts
					want := wantCalls(label, pod)
					seen[fmt.Sprint(creation.ConcernOf(pod), want)]++
					create(t, pod)
					if got := called.take(); !slices.Equal(got, want) {
						t.Errorf("label %q, owner %+v, named %t, annotations %v: webhooks %v are called, want %v", label, owner, named, a, got, want)
					}
				}
			}
		}
	}
	if len(seen) != 9 {
		t.Errorf("the pods were of %d sorts, want 9: %v", len(seen), seen)
	}
}

// unasked removes webhooks, and waits until the API server calls them no more: their server ends next, and requests of the
// next test would fail.
func unasked(t *testing.T, called *calls, webhooks testenv.Webhooks, ns string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	err := errors.Join(env.Client.Delete(ctx, webhooks.Mutating), env.Client.Delete(ctx, webhooks.Validating))
	if err != nil {
		t.Errorf("remove webhooks: %v", err)
	}
	err = wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		called.take()
		pod := aPod(ns, true, owners()[3], map[string]string{reservation.RetainAnnotation: "10"})
		state := testenv.APersistentPodState("probe").In(ns).Requires(hostname).PersistentPodState
		err := errors.Join(env.Client.Create(ctx, pod, client.DryRunAll), env.Client.Create(ctx, state, client.DryRunAll))
		return len(called.take()) == 0, err
	})
	if err != nil {
		t.Errorf("webhooks are removed and called: %v", err)
	}
}

func aPod(ns string, named bool, owner *metav1.OwnerReference, annotations map[string]string) *corev1.Pod {
	pod := testenv.APod("w-0").In(ns).Pod
	if !named {
		pod.Name, pod.GenerateName = "", "w-"
	}
	if owner != nil {
		pod.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	pod.Annotations = annotations
	return pod
}

// create has the API server call the webhooks for a pod, and store nothing.
func create(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if err := env.Client.Create(t.Context(), pod.DeepCopy(), client.DryRunAll); err != nil {
		t.Fatal(err)
	}
}
