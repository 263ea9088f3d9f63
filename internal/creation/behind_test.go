package creation_test

import (
	"encoding/json"
	"strings"
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

	"github.com/limpet-io/limpet/internal/creation"
	"github.com/limpet-io/limpet/internal/pin"
	pinadmit "github.com/limpet-io/limpet/internal/pin/admit"
	pincontroller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// A webhook whose cache has not seen a record yet, or not that a pod was released, finds it
// on the API server.
func TestWebhookReadsPastACacheThatIsBehind(t *testing.T) {
	env.Since(t, 31, "selectable fields of CRDs")
	ns := env.Namespace(t)
	node := testenv.ANode("behind")
	env.Create(t, node.Node)
	set := testenv.AStatefulSet("web", 2).In(ns)
	state := testenv.APersistentPodState("web").In(ns).Requires(hostname).
		Recorded("web-0", node.Name, map[string]string{hostname: node.Name}).Recorded("web-1", node.Name, map[string]string{hostname: node.Name})
	metav1.SetMetaDataAnnotation(&state.ObjectMeta, pin.AnnotationReleaseAfter, "10m")
	released := state.Status.PodStates["web-1"]
	released.ReleasedAt = &metav1.Time{Time: time.Now()}
	state.Status.PodStates["web-1"] = released
	waits := testenv.AStatefulSet("waits", 1).In(ns)
	refused := testenv.APersistentPodState("waits").In(ns).Requires(hostname).
		Recorded("waits-0", node.Name, map[string]string{hostname: node.Name})
	constrained := refused.Status.PodStates["waits-0"] // of which its PersistentPodState says nothing
	constrained.Waiting = &appsv1beta1.Waiting{Since: metav1.Now(), Reason: pin.CauseConstraint}
	constrained.ReleasedAt = released.ReleasedAt
	refused.Status.PodStates["waits-0"] = constrained
	env.Create(t, waits.StatefulSet, refused.PersistentPodState)
	fresh := testenv.AStatefulSet("fresh", 1).In(ns).
		With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationRequiredTopology, hostname)
	made := testenv.APersistentPodState("fresh").In(ns).Requires(hostname).
		Recorded("fresh-0", node.Name, map[string]string{hostname: node.Name})
	made.Labels = map[string]string{unseenLabel: "yes"}
	byHand := testenv.AStatefulSet("by-hand", 1).In(ns)
	written := testenv.APersistentPodState("written").In(ns).Requires(hostname).
		Recorded("by-hand-0", node.Name, map[string]string{hostname: node.Name})
	written.Spec.TargetReference.Name, written.Labels = byHand.Name, made.Labels
	env.Create(t, byHand.StatefulSet, written.PersistentPodState, &limpetv1alpha1.IPReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "by-hand-0"},
		Status: limpetv1alpha1.IPReservationStatus{
			Node: node.Name, Network: "net", Interface: "eth0", Pod: "by-hand-0", IPs: "10.0.1.7", State: limpetv1alpha1.IPAttached,
		},
	})
	env.Create(t, set.StatefulSet, state.PersistentPodState, fresh.StatefulSet, made.PersistentPodState)

	cached := behind(t)
	reader := &workloads.Reader{Registry: workloads.NewRegistry(), Cached: cached, Live: env.Client}
	webhook := &creation.Handler{
		Planners:       []creation.Planner{&pinadmit.Planner{Cached: cached, Live: env.Client, LiveProven: env.Client, Workloads: reader, Sightings: &cluster.Sightings{Clock: clock.RealClock{}}, Clock: clock.RealClock{}}},
		MaxReservation: time.Hour, Clock: clock.RealClock{},
	}
	cases := map[string]struct {
		owner testenv.StatefulSet
		state string
		want  string
	}{
		"web-0":     {set, "web", hostname + "=" + node.Name}, // whose record it has not seen
		"web-1":     {set, "web", ""},                         // which it has not seen released
		"waits-0":   {waits, "waits", ""},                     // nor this one
		"fresh-0":   {fresh, "fresh", hostname + "=" + node.Name},
		"by-hand-0": {byHand, "written", hostname + "=" + node.Name},
	}
	for name, tc := range cases {
		pod := testenv.APod(name).In(ns).OwnedBy(tc.owner.StatefulSet).With(reservation.RetainAnnotation, "10").Pod
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
			if key, ok := strings.CutPrefix(op.Path, "/metadata/annotations/"); ok {
				annotations[strings.ReplaceAll(key, "~1", "/")] = op.Value
			}
		}
		if annotations[appsv1beta1.AnnotationInjected] != tc.state {
			t.Errorf("%s: annotations %v, want it pinned", name, annotations)
		}
		if got, _ := annotations[podpatch.AnnotationPlace].(string); got != tc.want {
			t.Errorf("%s: required place %q, want %q", name, got, tc.want)
		}
	}
}

// unseenLabel is on a PersistentPodState that behind has not seen at all.
const unseenLabel = "example.com/unseen"

// behind is a cache that has not seen a record, and that a pod was released.
func behind(t *testing.T) client.Reader {
	t.Helper()
	options := cluster.CacheOptions(pincontroller.Needs())
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
	return env.RunCache(t, options, func(c client.FieldIndexer) error {
		return cluster.AddIndexes(t.Context(), c, pincontroller.Needs())
	})
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
