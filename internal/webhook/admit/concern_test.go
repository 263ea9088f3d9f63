package admit_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/internal/webhook/admit"
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

// wantCalls are the webhooks that must be called for each concern.
var wantCalls = map[admit.Concern][]string{
	admit.Nothing:    nil,
	admit.Preference: {"pinned.pods.limpet.dev"},
	admit.Retention:  {"retained.pods.limpet.dev"},
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
	ns := env.Namespace(t)
	var called calls
	env.ServeWebhooks(t, testenv.ReadWebhooks(t), called.serve)
	testenv.Eventually(t, func() error { // the API server takes a moment to know the webhooks
		create(t, aPod(ns, true, owners()[3], map[string]string{reservation.RetainAnnotation: "10"}))
		if got := called.take(); len(got) == 0 {
			return fmt.Errorf("no webhook is called")
		}
		return nil
	})
	annotations := []map[string]string{
		nil,
		{"example.com/other": "x"},
		{reservation.RetainAnnotation: "10"},
		{reservation.RetainAnnotation: ""},
		{reservation.ModeAnnotation: "required"},
		{reservation.RetainAnnotation: "10", reservation.ModeAnnotation: "required", "example.com/other": "x"},
	}
	seen := map[admit.Concern]int{}
	for _, owner := range owners() {
		for _, named := range []bool{true, false} {
			for _, a := range annotations {
				pod := aPod(ns, named, owner, a)
				concern := admit.ConcernOf(pod)
				seen[concern]++
				create(t, pod)
				if got := called.take(); !slices.Equal(got, wantCalls[concern]) {
					t.Errorf("owner %+v, named %t, annotations %v: webhooks %v are called, want %v", owner, named, a, got, wantCalls[concern])
				}
			}
		}
	}
	for concern := range wantCalls {
		if seen[concern] == 0 {
			t.Errorf("no pod has concern %d", concern)
		}
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
