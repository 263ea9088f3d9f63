package podpatch_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/testenv"
)

func want(key, value string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
}

func TestMergeRefusesContradictions(t *testing.T) {
	cases := map[string]struct{ a, b podpatch.Patch }{
		"two values of an annotation": {
			podpatch.Patch{Annotations: map[string]string{"k": "1"}}, podpatch.Patch{Annotations: map[string]string{"k": "2"}},
		},
		"an annotation that one gives and the other removes": {
			podpatch.Patch{Annotations: map[string]string{"k": "1"}}, podpatch.Patch{Drop: []string{"k"}},
		},
		"an annotation that one removes and the other gives": {
			podpatch.Patch{Drop: []string{"k"}}, podpatch.Patch{Annotations: map[string]string{"k": "1"}},
		},
		"two values of a label": {
			podpatch.Patch{Labels: map[string]string{"k": "1"}}, podpatch.Patch{Labels: map[string]string{"k": "2"}},
		},
		"two values of a field in strategic merge patches": {
			podpatch.Patch{Strategic: []byte(`{"spec":{"priorityClassName":"a"}}`)},
			podpatch.Patch{Strategic: []byte(`{"spec":{"priorityClassName":"b"}}`)},
		},
		"two images of a container in strategic merge patches": {
			podpatch.Patch{Strategic: []byte(`{"spec":{"containers":[{"name":"main","image":"a"}]}}`)},
			podpatch.Patch{Strategic: []byte(`{"spec":{"containers":[{"name":"main","image":"b"}]}}`)},
		},
		"two values of a required label": {
			podpatch.Patch{Required: []corev1.NodeSelectorRequirement{want("zone", "a")}},
			podpatch.Patch{Required: []corev1.NodeSelectorRequirement{want("zone", "b")}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := podpatch.Merge(tc.a, tc.b)
			if !errors.Is(err, podpatch.ErrContradiction) {
				t.Errorf("error %v, want a contradiction", err)
			}
			if diff := cmp.Diff(tc.a, got); diff != "" {
				t.Errorf("the earlier patch was changed (-want +got):\n%s", diff)
			}
		})
	}
}

// Every alternative of the pod's own affinity stays, narrowed; one that matches nothing
// goes on matching nothing.
func TestOperationsKeepWhatThePodHas(t *testing.T) {
	pod := testenv.APod("web-0").With("own/a", "1").Pod
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "own"}}
	pod.Spec.Affinity = &corev1.Affinity{
		PodAntiAffinity: &corev1.PodAntiAffinity{},
		NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchExpressions: []corev1.NodeSelectorRequirement{want("disk", "ssd")}}, {},
			},
		}},
	}
	expected := pod.DeepCopy()
	expected.Annotations["new/b"] = "2"
	expected.Spec.SchedulingGates = append(expected.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "ours"})
	required := expected.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	required.NodeSelectorTerms[0].MatchExpressions = append(required.NodeSelectorTerms[0].MatchExpressions, want("zone", "a"))

	got := apply(t, pod, podpatch.Patch{
		Annotations: map[string]string{"new/b": "2"},
		Required:    []corev1.NodeSelectorRequirement{want("zone", "a")},
		Gates:       []string{"ours"},
	})
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
}

func TestOperationsDropAnnotations(t *testing.T) {
	cases := map[string]struct {
		has, want map[string]string
		patch     podpatch.Patch
	}{
		"one of two":      {map[string]string{"own/a~b": "1", "k": "2"}, map[string]string{"k": "2"}, podpatch.Patch{Drop: []string{"own/a~b"}}},
		"the only one":    {map[string]string{"own/a": "1"}, nil, podpatch.Patch{Drop: []string{"own/a"}}},
		"one that is not": {map[string]string{"k": "2"}, map[string]string{"k": "2"}, podpatch.Patch{Drop: []string{"own/a"}}},
		"of none":         {nil, nil, podpatch.Patch{Drop: []string{"own/a"}}},
		"the same twice":  {map[string]string{"own/a": "1"}, nil, podpatch.Patch{Drop: []string{"own/a", "own/a"}}},
		"beside one that is given": {
			map[string]string{"own/a": "1"},
			map[string]string{"own/b": "2"},
			podpatch.Patch{Annotations: map[string]string{"own/b": "2"}, Drop: []string{"own/a"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := testenv.APod("web-0").Pod
			pod.Annotations = tc.has
			if diff := cmp.Diff(tc.want, apply(t, pod, tc.patch).Annotations, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
		})
	}
}

// A copied template may have the gate, too.
func TestOperationsAddAGateOnce(t *testing.T) {
	pod := testenv.APod("web-0").Pod
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "ours"}}
	got := apply(t, pod, podpatch.Patch{Gates: []string{"ours", "next"}}).Spec.SchedulingGates
	if diff := cmp.Diff([]corev1.PodSchedulingGate{{Name: "ours"}, {Name: "next"}}, got); diff != "" {
		t.Errorf("gates (-want +got):\n%s", diff)
	}
}

func TestOperationsOnABarePod(t *testing.T) {
	pod := testenv.APod("web-0").Pod
	expected := pod.DeepCopy()
	expected.Annotations = map[string]string{"k": "v"}
	term := corev1.PreferredSchedulingTerm{Weight: 3, Preference: corev1.NodeSelectorTerm{
		MatchExpressions: []corev1.NodeSelectorRequirement{want("zone", "a")},
	}}
	expected.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{term},
	}}
	got := apply(t, pod, podpatch.Patch{
		Annotations: map[string]string{"k": "v"}, Preferred: []corev1.PreferredSchedulingTerm{term},
	})
	if diff := cmp.Diff(expected, got); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
}

// Strategic merge patches of two planners are joined, and fields that this version does
// not know survive.
func TestOperationsOfStrategicMergePatches(t *testing.T) {
	merged, err := podpatch.Merge(
		podpatch.Patch{
			Strategic:   []byte(`{"metadata":{"labels":{"subset":"a"}},"spec":{"containers":[{"name":"main","env":[{"name":"K","value":"1"}]}]}}`),
			Tolerations: []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}},
		},
		podpatch.Patch{
			Strategic: []byte(`{"spec":{"priorityClassName":"low"}}`), Labels: map[string]string{"own": "x"},
			Tolerations: []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}},
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	pod := testenv.APod("web-0").Pod
	expected := pod.DeepCopy()
	expected.Labels = map[string]string{"subset": "a", "own": "x"}
	expected.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "K", Value: "1"}}
	expected.Spec.PriorityClassName = "low"
	expected.Spec.Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
	if diff := cmp.Diff(expected, apply(t, pod, merged)); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
	ops, err := podpatch.Operations([]byte(`{"spec":{"ofTheFuture":{"a":1},"containers":[{"name":"main","image":"i","new":true}]}}`), merged)
	if err != nil {
		t.Fatal(err)
	}
	for _, op := range ops {
		if strings.Contains(op.Path, "Future") || strings.HasSuffix(op.Path, "/new") || op.Operation == "remove" {
			t.Errorf("operation %s touches what no patch names", op.Json())
		}
	}
}

// apply sends the operations the way the API server gets and applies them.
func apply(t *testing.T, pod *corev1.Pod, p podpatch.Patch) *corev1.Pod {
	t.Helper()
	object, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	ops, err := podpatch.Operations(object, p)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(ops)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(raw)
	if err != nil {
		t.Fatal(err)
	}
	if object, err = patch.Apply(object); err != nil {
		t.Fatal(err)
	}
	got := &corev1.Pod{}
	if err := json.Unmarshal(object, got); err != nil {
		t.Fatal(err)
	}
	return got
}
