package creation_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/creation"
	pincontroller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	spreadadmit "github.com/limpet-io/limpet/internal/spread/admit"
	"github.com/limpet-io/limpet/internal/testenv"
)

// A webhook whose cache has not seen that a StatefulSet grew finds the size on the API server. The
// percentages of its spread are of that size.
func TestPercentagesFollowAStatefulSetThatGrew(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 10).In(ns).StatefulSet
	put(t, set, aSpread(ns, "web", "apps/v1", "StatefulSet", "web", "a=50%", "b=50%"))
	webhook := &creation.Handler{Planners: []creation.Planner{smaller(t)}, MaxReservation: time.Hour, Clock: clock.RealClock{}, Labelled: true}
	for name, want := range map[string]string{"web-0": "a", "web-2": "a", "web-9": "b"} {
		raw, err := json.Marshal(testenv.APod(name).In(ns).OwnedBy(set).Pod)
		if err != nil {
			t.Fatal(err)
		}
		answer := webhook.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Namespace: ns, Name: name, Object: runtime.RawExtension{Raw: raw},
		}})
		if !answer.Allowed || len(answer.Warnings) > 0 {
			t.Errorf("%s: answer %+v", name, answer)
		}
		if text, err := json.Marshal(answer.Patches); err != nil || !strings.Contains(string(text), `\"subset\":\"`+want+`\"`) {
			t.Errorf("%s: patches %s, %v, want subset %s", name, text, err, want)
		}
	}
}

// smaller is the planner of a replica that has seen each StatefulSet with two pods alone.
func smaller(t *testing.T) *spreadadmit.Planner {
	t.Helper()
	needs := []cluster.Needs{pincontroller.Needs(), workloads.Needs(namespaces...), spreadadmit.Needs()}
	options := cluster.CacheOptions(needs...)
	for object, by := range options.ByObject {
		if _, ok := object.(*appsv1.StatefulSet); !ok {
			continue
		}
		kept := by.Transform
		by.Transform = func(o any) (any, error) {
			o, err := kept(o)
			if s, ok := o.(*appsv1.StatefulSet); ok {
				s.Spec.Replicas = new(int32(2))
			}
			return o, err
		}
		options.ByObject[object] = by
	}
	c := env.RunCache(t, options, func(c client.FieldIndexer) error { return cluster.AddIndexes(t.Context(), c, needs...) })
	filled(t, c)
	reader := &workloads.Reader{Registry: registry, Cached: c, Live: serving.GetAPIReader(), Namespaces: namespaces}
	sizes := workloads.NewScales(env.Client, env.Client)
	sizes.Kinds = registry
	live := cluster.NewLiveReader(env.Client, cluster.LimitUnproven)
	return &spreadadmit.Planner{Cached: c, Live: live, LiveProven: live, Workloads: reader, Sizes: sizes, Clock: clock.RealClock{}, Recorded: recordedIn(c)}
}
