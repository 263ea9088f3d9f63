package podpatch_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/testenv"
)

func field(value string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{value}}
}

// Fields are required in every alternative, beside the labels.
func TestRequiredFieldsOfANode(t *testing.T) {
	pod := testenv.APod("web-0").Pod
	patch := podpatch.Patch{RequiredFields: []corev1.NodeSelectorRequirement{field("n1")}}
	required := func(p *corev1.Pod) []corev1.NodeSelectorTerm {
		return p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	terms := []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{field("n1")}}}
	if diff := cmp.Diff(terms, required(apply(t, pod, patch))); diff != "" {
		t.Errorf("terms of a bare pod (-want +got):\n%s", diff)
	}
	patch.Required = []corev1.NodeSelectorRequirement{want("zone", "a")}
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{want("disk", "ssd")}}, {}},
	}}}
	terms = []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{want("disk", "ssd"), want("zone", "a")},
		MatchFields:      []corev1.NodeSelectorRequirement{field("n1")},
	}, {}}
	if diff := cmp.Diff(terms, required(apply(t, pod, patch))); diff != "" {
		t.Errorf("terms of a pod with terms (-want +got):\n%s", diff)
	}
	_, err := podpatch.Merge(patch, podpatch.Patch{RequiredFields: []corev1.NodeSelectorRequirement{field("n2")}})
	if !errors.Is(err, podpatch.ErrContradiction) {
		t.Errorf("two names of a node: error %v", err)
	}
}

// The API server computes both fields from the class, and refuses a pod with other values.
func TestAnotherPriorityClassIsComputedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		patch, want string
	}{
		"another class":                 {`{"spec":{"priorityClassName":"low"}}`, `{"priorityClassName":"low"}`},
		"the same class":                {`{"spec":{"priorityClassName":"high"}}`, `{"priorityClassName":"high","priority":7,"preemptionPolicy":"Never"}`},
		"no class":                      {`{"spec":{"hostname":"h"}}`, `{"hostname":"h","priorityClassName":"high","priority":7,"preemptionPolicy":"Never"}`},
		"another class with its values": {`{"spec":{"priorityClassName":"low","priority":3}}`, `{"priorityClassName":"low","priority":3}`},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{}
			pod.Spec = corev1.PodSpec{PriorityClassName: "high", Priority: new(int32(7)), PreemptionPolicy: new(corev1.PreemptNever)}
			want := corev1.PodSpec{}
			if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, apply(t, pod, podpatch.Patch{Strategic: []byte(tc.patch)}).Spec); diff != "" {
				t.Errorf("spec (-want +got):\n%s", diff)
			}
		})
	}
}

// A tenant writes patches. What Strategic accepts, Operations must accept as well.
func TestStrategicRefusesWhatDoesNotApply(t *testing.T) {
	for name, tc := range map[string]struct {
		patch    string
		ok       bool
		identity bool
	}{
		"labels and a class":            {`{"metadata":{"labels":{"a":"b"}},"spec":{"priorityClassName":"low"}}`, true, false},
		"nothing":                       {`{}`, true, false},
		"no JSON":                       {`{`, false, false},
		"a list":                        {`[]`, false, false},
		"a text instead of containers":  {`{"spec":{"containers":"all"}}`, false, false},
		"a container without a name":    {`{"spec":{"containers":[{"image":"x"}]}}`, false, false},
		"a priority that is no number":  {`{"spec":{"priorityClassName":"low","priority":{"a":1}}}`, false, false},
		"a directive that is not known": {`{"spec":{"containers":[{"$patch":"turn","name":"main"}]}}`, false, false},
		"another name":                  {`{"metadata":{"name":"other"}}`, false, true},
		"another namespace":             {`{"metadata":{"namespace":"kube-system"}}`, false, true},
		"another owner":                 {`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"other"}]}}`, false, true},
		"no owner":                      {`{"metadata":{"ownerReferences":[{"$patch":"replace"}]}}`, false, true},
		"the whole metadata":            {`{"metadata":{"$patch":"replace"}}`, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := testenv.APod("web-0").Pod
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "1"}}
			_, err := podpatch.Strategic(pod, []byte(tc.patch))
			if (err == nil) != tc.ok || errors.Is(err, podpatch.ErrIdentity) != tc.identity {
				t.Errorf("error %v", err)
			}
			raw, failed := json.Marshal(pod)
			if failed != nil {
				t.Fatal(failed)
			}
			if _, failed = podpatch.Operations(raw, podpatch.Patch{Strategic: []byte(tc.patch)}); failed != nil && err == nil {
				t.Errorf("accepted, but Operations says %v", failed)
			}
		})
	}
}

// A patch cannot set what a planner sets or drops.
func TestPlannersWinOverStrategicPatches(t *testing.T) {
	pod := testenv.APod("web-0").Pod
	got := apply(t, pod, podpatch.Patch{
		Strategic:   []byte(`{"metadata":{"annotations":{"ours":"forged","dropped":"forged","own":"1"}},"spec":{"tolerations":[{"key":"own"}]}}`),
		Annotations: map[string]string{"ours": "true"}, Drop: []string{"dropped"},
		Tolerations: []corev1.Toleration{{Key: "subset"}},
	})
	if diff := cmp.Diff(map[string]string{"ours": "true", "own": "1"}, got.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.Toleration{{Key: "own"}, {Key: "subset"}}, got.Spec.Tolerations); diff != "" {
		t.Errorf("tolerations (-want +got):\n%s", diff)
	}
}

// The time of a merge grows with the square of the length of a list. Users choose the length of
// both lists.
func TestLongListsAreNotMerged(t *testing.T) {
	names := func(prefix string, n int) (all []corev1.EnvVar) {
		for i := range n {
			all = append(all, corev1.EnvVar{Name: fmt.Sprint(prefix, i)})
		}
		return all
	}
	cases := map[string]struct {
		pod, patch int
		text       string
		want       error
	}{
		"usual lists":                      {pod: 100, patch: 20},
		"a long list of the pod":           {pod: 700, patch: 1, want: podpatch.ErrLists},
		"a long list of the patch":         {pod: 1, patch: 700, want: podpatch.ErrLists},
		"a long list that no patch merges": {pod: 2000, text: `{"metadata":{"labels":{"a":"b"}}}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Env: names("a", tc.pod)}}}}
			patch := []byte(tc.text)
			if tc.text == "" {
				var err error
				added := corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Env: names("b", tc.patch)}}}}
				if patch, err = json.Marshal(map[string]any{"spec": map[string]any{"containers": added.Spec.Containers}}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := podpatch.Strategic(pod, patch); !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v", err, tc.want)
			}
			raw, err := json.Marshal(pod)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := podpatch.Operations(raw, podpatch.Patch{Strategic: patch}); !errors.Is(err, tc.want) {
				t.Errorf("operations: error %v, want %v", err, tc.want)
			}
		})
	}
}
