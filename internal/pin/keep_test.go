package pin_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/testenv"
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
		"the workload says nonsense":       {set: annotations{keep: "soon"}, namespace: annotations{keep: "10m"}},
		"the pod says it":                  {pod: annotations{keep: "1m"}, set: annotations{keep: "5m"}},
		"the pod says not":                 {pod: annotations{keep: "0"}, set: annotations{keep: "5m"}},
		"the pod says minutes":             {pod: annotations{retain: "1"}, set: annotations{keep: "5m"}},
		"it has that already":              {pod: ofSet, set: annotations{keep: "5m"}},
		"it has another value":             {pod: ofSet, set: annotations{keep: "6m"}, changes: changed(annotations{keep: "6m", from: "StatefulSet"})},
		"it has it from another object":    {pod: ofNamespace, set: annotations{keep: "10m"}, changes: changed(annotations{keep: "10m", from: "StatefulSet"})},
		"it is asked no more":              {pod: ofSet, changes: gone},
		"a mark alone":                     {pod: annotations{from: "StatefulSet"}, given: nil, changes: gone},
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
			pod.Spec.HostNetwork = true
			if got := request.Changes(pod.Pod); got != nil || request.Given(pod.Pod).Annotations != nil {
				t.Errorf("a pod with the addresses of its node gets %v", got)
			}
		})
	}
}
