package pin_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// A pod gets what the nearer of its workload and its namespace asks, unless the pod says it itself. A running pod follows
// a change.
func TestAPodGetsTheNearestKeep(t *testing.T) {
	const from = pin.AnnotationKeepFrom
	changed := func(of annotations) map[string]*string {
		all := map[string]*string{}
		for key, value := range of {
			all[key] = &value
		}
		return all
	}
	gone := map[string]*string{keep: nil, from: nil}
	ofSet, ofNamespace := annotations{keep: "5m", from: "StatefulSet"}, annotations{keep: "10m", from: "Namespace"}
	for name, tc := range map[string]struct {
		pod, set, namespace annotations
		given               annotations
		changes             map[string]*string
	}{
		"nothing is asked":                 {},
		"by the namespace":                 {namespace: annotations{keep: "10m"}, given: ofNamespace, changes: changed(ofNamespace)},
		"by the workload, which is nearer": {set: annotations{keep: "5m"}, namespace: annotations{keep: "10m"}, given: ofSet, changes: changed(ofSet)},
		"the workload says not":            {set: annotations{keep: "0"}, namespace: annotations{keep: "10m"}},
		"nonsense, and what it has stays":  {pod: ofNamespace, namespace: annotations{keep: "soon"}},
		"the workload says nonsense":       {set: annotations{keep: "soon"}, namespace: annotations{keep: "10m"}},
		"the pod says it":                  {pod: annotations{keep: "1m"}, set: annotations{keep: "5m"}},
		"the pod says not":                 {pod: annotations{keep: "0"}, set: annotations{keep: "5m"}},
		"the pod says minutes":             {pod: annotations{retain: "1"}, set: annotations{keep: "5m"}},
		"it has that already":              {pod: ofSet, set: annotations{keep: "5m"}},
		"it has another value":             {pod: ofSet, set: annotations{keep: "6m"}, changes: changed(annotations{keep: "6m", from: "StatefulSet"})},
		"it has it from another object":    {pod: ofNamespace, set: annotations{keep: "10m"}, changes: changed(annotations{keep: "10m", from: "StatefulSet"})},
		"it is asked no more":              {pod: ofSet, changes: gone},
		"a mark alone":                     {pod: annotations{from: "StatefulSet"}, given: nil, changes: gone},
		"seen, and nothing is asked":       {pod: annotations{from: pin.KeepFromNone}, set: annotations{keep: "0"}, namespace: annotations{keep: "10m"}},
		"seen, and asked since":            {pod: annotations{from: pin.KeepFromNone}, namespace: annotations{keep: "10m"}, given: ofNamespace, changes: changed(ofNamespace)},
	} {
		t.Run(name, func(t *testing.T) {
			pod := testenv.APod("web-0")
			pod.Annotations = tc.pod
			request := pin.NearestKeep("StatefulSet", tc.set, tc.namespace)
			want := podpatch.Patch{Annotations: tc.given}
			if tc.given == nil { // a mark in a template means nothing
				want.Drop = []string{from}
			}
			if diff := cmp.Diff(want, request.Given(pod.Pod)); diff != "" {
				t.Errorf("given at its creation (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.changes, request.Changes(pod.Pod)); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
			request.Expected = true
			if tc.given == nil && tc.pod[keep]+tc.pod[retain] == "" {
				want = podpatch.Patch{Annotations: annotations{from: pin.KeepFromNone}}
			}
			if diff := cmp.Diff(want, request.Given(pod.Pod)); diff != "" {
				t.Errorf("given in a namespace that asks (-want +got):\n%s", diff)
			}
			pod.Spec.HostNetwork = true
			if got := request.Changes(pod.Pod); got != nil || request.Given(pod.Pod).Annotations != nil {
				t.Errorf("a pod with the addresses of its node gets %v", got)
			}
		})
	}
}

// An object for which limpet.dev/keep asked keeps no user from an own one, which is in force at once.
func TestAGeneratedObjectGivesWay(t *testing.T) {
	generated := *testenv.APersistentPodState("web").Prefers(100, hostname).PersistentPodState
	generated.Labels, generated.Annotations = map[string]string{pin.LabelGenerated: "true"}, annotations{pin.AnnotationKeepFrom: "Namespace"}
	byHand := *testenv.APersistentPodState("web-place").Requires(zone).PersistentPodState
	byHand.Spec.TargetReference.Name = "web"
	byHand.CreationTimestamp = metav1.NewTime(now)
	both := []appsv1beta1.PersistentPodState{generated, byHand}
	if errs := pin.Validate(&byHand, both, workload.Kinds{}); len(errs) > 0 {
		t.Errorf("refused: %v", errs.ToAggregate())
	}
	if got := pin.Choose(both); got.Name != byHand.Name {
		t.Errorf("%s is in force, want %s", got.Name, byHand.Name)
	}
	delete(both[0].Annotations, pin.AnnotationKeepFrom) // an annotation of OpenKruise asks for it
	if errs := pin.Validate(&byHand, both, workload.Kinds{}); len(errs) != 1 || pin.Choose(both).Name != "web" {
		t.Errorf("%v, %s is in force: want the older one", errs, pin.Choose(both).Name)
	}
}
