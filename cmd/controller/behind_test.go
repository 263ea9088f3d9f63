package main

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/controller"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetwebhook "github.com/limpet-io/limpet/internal/webhook"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
)

// A webhook whose cache has not seen a record yet, or not that a pod was let go, finds it
// on the API server.
func TestWebhookReadsPastACacheThatIsBehind(t *testing.T) {
	ns := env.Namespace(t)
	node := testenv.ANode("behind")
	set := testenv.AStatefulSet("web", 2).In(ns)
	state := testenv.APersistentPodState("web").In(ns).Requires(hostname).
		Recorded("web-0", node.Name, map[string]string{hostname: node.Name}).Recorded("web-1", node.Name, map[string]string{hostname: node.Name})
	metav1.SetMetaDataAnnotation(&state.ObjectMeta, pin.AnnotationReleaseAfter, "10m")
	released := state.Status.PodStates["web-1"]
	released.ReleasedAt = &metav1.Time{Time: time.Now()}
	state.Status.PodStates["web-1"] = released
	fresh := testenv.AStatefulSet("fresh", 1).In(ns).
		With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationRequiredTopology, hostname)
	made := testenv.APersistentPodState("fresh").In(ns).Requires(hostname).
		Recorded("fresh-0", node.Name, map[string]string{hostname: node.Name})
	made.Labels = map[string]string{unseenLabel: "yes"}
	env.Create(t, node.Node, set.StatefulSet, state.PersistentPodState, fresh.StatefulSet, made.PersistentPodState)

	webhook := &limpetwebhook.PodCreate{
		Cached: behind(t), Live: env.Client, Workloads: &controller.Workloads{}, MaxReservation: time.Hour, Clock: clock.RealClock{},
	}
	cases := map[string]struct {
		owner testenv.StatefulSet
		want  string
	}{
		"web-0":   {set, hostname + "=" + node.Name}, // whose record it has not seen
		"web-1":   {set, ""},                         // which it has not seen let go
		"fresh-0": {fresh, hostname + "=" + node.Name},
	}
	for name, tc := range cases {
		pod := testenv.APod(name).In(ns).OwnedBy(tc.owner.StatefulSet).Pod
		raw, err := json.Marshal(pod)
		if err != nil {
			t.Fatal(err)
		}
		answer := webhook.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Namespace: ns, Object: runtime.RawExtension{Raw: raw},
		}})
		if !answer.Allowed || len(answer.Warnings) > 0 {
			t.Fatalf("%s: answer %+v", name, answer)
		}
		annotations := map[string]any{}
		for _, op := range answer.Patches {
			if op.Path == "/metadata/annotations" {
				for key, value := range op.Value.(map[string]string) {
					annotations[key] = value
				}
			}
		}
		if annotations[appsv1beta1.AnnotationInjected] != tc.owner.Name {
			t.Errorf("%s: annotations %v, want it pinned", name, annotations)
		}
		if got, _ := annotations[pin.AnnotationPlace].(string); got != tc.want {
			t.Errorf("%s: required place %q, want %q", name, got, tc.want)
		}
	}
}

// unseenLabel is on a PersistentPodState that behind has not seen at all.
const unseenLabel = "example.com/unseen"

// behind is a cache that has not seen a record, and that a pod was let go.
func behind(t *testing.T) client.Reader {
	t.Helper()
	options := controller.CacheOptions()
	options.Scheme = env.Scheme
	options.ByObject[&appsv1beta1.PersistentPodState{}] = cache.ByObject{Label: not(t, unseenLabel), Transform: func(o any) (any, error) {
		if s, ok := o.(*appsv1beta1.PersistentPodState); ok {
			delete(s.Status.PodStates, "web-0")
			for name, record := range s.Status.PodStates {
				record.ReleasedAt = nil
				s.Status.PodStates[name] = record
			}
		}
		return o, nil
	}}
	c, err := cache.New(env.Config, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := controller.AddIndexes(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("cache: %v", err)
		}
	})
	if !c.WaitForCacheSync(ctx) {
		t.Fatal("cache did not fill")
	}
	return c
}

// not selects what does not have a label.
func not(t *testing.T, label string) labels.Selector {
	t.Helper()
	s, err := labels.Parse("!" + label)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
