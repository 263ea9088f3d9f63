package spread_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/spread"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// anObject is a WorkloadSpread with maxima; "" is no maximum.
func anObject(maxima ...string) *appsv1beta1.WorkloadSpread {
	ws := &appsv1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Name: "ws", UID: "1"}}
	ws.Spec.TargetReference = appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	for i, text := range maxima {
		s := appsv1beta1.WorkloadSpreadSubset{Name: string(rune('a' + i))}
		if text != "" {
			s.MaxReplicas = new(intstr.Parse(text))
		}
		ws.Spec.Subsets = append(ws.Spec.Subsets, s)
	}
	return ws
}

func maxima(s spread.Spread) []int32 {
	var all []int32
	for _, subset := range s.Subsets {
		if subset.Max == nil {
			all = append(all, -1)
			continue
		}
		all = append(all, *subset.Max)
	}
	return all
}

func TestOfRoundsPercentagesUp(t *testing.T) {
	for name, tc := range map[string]struct {
		maxima   []string
		replicas int32
		want     []int32
	}{
		"numbers":                     {[]string{"3", "0", ""}, spread.UnknownSize, []int32{3, 0, -1}},
		"20/80 of 5":                  {[]string{"20%", "80%"}, 5, []int32{1, 4}},
		"25/75 of 4":                  {[]string{"25%", "75%"}, 4, []int32{1, 3}},
		"thirds of 10":                {[]string{"34%", "33%", "33%"}, 10, []int32{4, 4, 4}},
		"of none":                     {[]string{"50%", ""}, 0, []int32{0, -1}},
		"of as many as there can be":  {[]string{"100%", "0%"}, 1<<31 - 1, []int32{1<<31 - 1, 0}},
		"a percentage with zeros":     {[]string{"005%"}, 100, []int32{5}},
		"a number that is too large":  {[]string{"2147483647"}, 1, []int32{1<<31 - 1}},
		"a negative number counts 0":  {[]string{"-1"}, 1, []int32{0}},
		"a percentage and no maximum": {[]string{"30%", ""}, 10, []int32{3, -1}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := spread.Of(anObject(tc.maxima...), tc.replicas)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, maxima(got)); diff != "" {
				t.Errorf("maxima (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOfFails(t *testing.T) {
	if _, err := spread.Of(anObject("50%", ""), spread.UnknownSize); !errors.Is(err, spread.ErrSize) {
		t.Errorf("a percentage of an unknown size: error %v", err)
	}
	if _, err := spread.Of(anObject("many"), 1); err == nil {
		t.Error("a maximum that is a word is accepted")
	}
}

func TestOfReadsTheStrategy(t *testing.T) {
	adaptive := func(a *appsv1beta1.AdaptiveSpread) appsv1beta1.WorkloadSpreadScheduleStrategy {
		return appsv1beta1.WorkloadSpreadScheduleStrategy{Type: appsv1beta1.SpreadAdaptive, Adaptive: a}
	}
	full := &appsv1beta1.AdaptiveSpread{
		RescheduleCriticalSeconds: new(int32(30)), RecoverySeconds: new(int32(60)), ReturnPolicy: appsv1beta1.ReturnWhenRecovered,
	}
	for name, tc := range map[string]struct {
		strategy appsv1beta1.WorkloadSpreadScheduleStrategy
		want     *spread.Adaptive
		skipped  []bool
	}{
		"fixed":                     {appsv1beta1.WorkloadSpreadScheduleStrategy{Type: appsv1beta1.SpreadFixed}, nil, []bool{false, false}},
		"none":                      {appsv1beta1.WorkloadSpreadScheduleStrategy{}, nil, []bool{false, false}},
		"adaptive without a time":   {adaptive(nil), &spread.Adaptive{Recovery: 5 * time.Minute}, []bool{false, false}},
		"adaptive with all it says": {adaptive(full), &spread.Adaptive{Critical: 30 * time.Second, Recovery: time.Minute, Return: true}, []bool{true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			ws := anObject("1", "")
			ws.Spec.ScheduleStrategy = tc.strategy
			for _, s := range []string{"a", "b"} { // the last subset is never skipped
				ws.Status.SubsetStatuses = append(ws.Status.SubsetStatuses, appsv1beta1.WorkloadSpreadSubsetStatus{
					Name: s, Conditions: []metav1.Condition{{Type: appsv1beta1.ConditionSchedulable, Status: metav1.ConditionFalse}},
				})
			}
			got, err := spread.Of(ws, 1)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got.Adaptive); diff != "" {
				t.Errorf("strategy (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.skipped, []bool{got.Subsets[0].Unschedulable, got.Subsets[1].Unschedulable}); diff != "" {
				t.Errorf("skipped (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOfCopiesWhatASubsetAdds(t *testing.T) {
	ws := anObject("")
	ws.Spec.Subsets[0].Patch = runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"a":"b"}}}`)}
	ws.Spec.Subsets[0].Tolerations = []corev1.Toleration{{Key: "spot"}}
	ws.Spec.Subsets[0].RequiredNodeSelector = &corev1.NodeSelectorTerm{
		MatchExpressions: []corev1.NodeSelectorRequirement{is(zone, "a")}, MatchFields: []corev1.NodeSelectorRequirement{is("metadata.name", "n1")},
	}
	ws.Spec.Subsets[0].PreferredNodeSelector = []corev1.PreferredSchedulingTerm{{Weight: 5}}
	got, err := spread.Of(ws, 1)
	if err != nil {
		t.Fatal(err)
	}
	patch := spread.PatchOf(got.Subsets[0], `{"name":"ws","subset":"a"}`)
	if patch.Annotations[appsv1beta1.AnnotationMatchedSpread] != `{"name":"ws","subset":"a"}` || len(patch.Annotations) != 1 {
		t.Errorf("annotations %v", patch.Annotations)
	}
	if len(patch.Required) != 1 || len(patch.RequiredFields) != 1 || len(patch.Preferred) != 1 || len(patch.Tolerations) != 1 || len(patch.Strategic) == 0 {
		t.Errorf("patch lacks a part: %+v", patch)
	}
	for _, nothing := range []string{"", "null", "{}"} {
		ws.Spec.Subsets[0].Patch.Raw = []byte(nothing)
		if got, err = spread.Of(ws, 1); err != nil || got.Subsets[0].Patch != nil {
			t.Errorf("patch %q: %s, %v", nothing, got.Subsets[0].Patch, err)
		}
	}
}

func TestCovers(t *testing.T) {
	owner := func(group, kind, name string) workload.Owner {
		return workload.Owner{Target: workload.Target{Group: group, Kind: kind, Name: name}}
	}
	deployed := []workload.Owner{owner("apps", "ReplicaSet", "web-1"), owner("apps", "Deployment", "web")}
	selects := func(value string) *appsv1beta1.TargetFilter {
		return &appsv1beta1.TargetFilter{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": value}}}
	}
	for name, tc := range map[string]struct {
		chain  []workload.Owner
		filter *appsv1beta1.TargetFilter
		want   bool
	}{
		"the owner's owner":                      {deployed, nil, true},
		"the owner":                              {deployed[1:], nil, true},
		"no owner":                               {nil, nil, false},
		"another name":                           {[]workload.Owner{owner("apps", "Deployment", "db")}, nil, false},
		"another group":                          {[]workload.Owner{owner("apps.kruise.io", "Deployment", "web")}, nil, false},
		"a filter that selects the pod":          {deployed, selects("worker"), true},
		"a filter that selects others":           {deployed, selects("master"), false},
		"a filter that selects, of another":      {nil, selects("worker"), false},
		"a filter without a selector":            {deployed, &appsv1beta1.TargetFilter{ReplicasPathList: []string{"spec.replicas"}}, true},
		"a filter with a selector of everything": {deployed, &appsv1beta1.TargetFilter{Selector: &metav1.LabelSelector{}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			ws := anObject("")
			ws.Spec.TargetFilter = tc.filter
			got, err := spread.Covers(ws, map[string]string{"role": "worker"}, tc.chain)
			if err != nil || got != tc.want {
				t.Errorf("covers %v, %v", got, err)
			}
		})
	}
	ws := anObject("")
	ws.Spec.TargetFilter = &appsv1beta1.TargetFilter{Selector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}},
	}}
	if _, err := spread.Covers(ws, nil, deployed); err == nil {
		t.Error("a selector that cannot be parsed has no error")
	}
}

func TestCounted(t *testing.T) {
	for kind, want := range map[schema.GroupKind]bool{
		{Group: "apps", Kind: "StatefulSet"}: false, {Group: "apps.kruise.io", Kind: "StatefulSet"}: false,
		{Group: "apps", Kind: "Deployment"}: true, {Group: "apps.kruise.io", Kind: "CloneSet"}: true, {Group: "example.com", Kind: "StatefulSet"}: true,
	} {
		if got := spread.Counted(kind); got != want {
			t.Errorf("%v: %v", kind, got)
		}
	}
}

func TestWants(t *testing.T) {
	job := func(parallelism, completions *int32, succeeded int32) *batchv1.Job {
		return &batchv1.Job{
			Spec:   batchv1.JobSpec{Parallelism: parallelism, Completions: completions},
			Status: batchv1.JobStatus{Succeeded: succeeded},
		}
	}
	for name, tc := range map[string]struct {
		owner runtime.Object
		want  int32
	}{
		"a ReplicaSet":                      {&appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(3))}}, 3},
		"a ReplicaSet without a number":     {&appsv1.ReplicaSet{}, 1},
		"a Job":                             {job(new(int32(4)), new(int32(10)), 2), 4},
		"a Job that is nearly complete":     {job(new(int32(4)), new(int32(10)), 8), 2},
		"a Job that is complete":            {job(new(int32(4)), new(int32(10)), 12), 0},
		"a Job without completions":         {job(new(int32(4)), nil, 100), 4},
		"a Job that says nothing":           {job(nil, nil, 0), 1},
		"a workload that makes pods freely": {&appsv1.Deployment{}, spread.UnknownWants},
	} {
		if got := spread.Wants(tc.owner); got != tc.want {
			t.Errorf("%s wants %d, not %d", name, got, tc.want)
		}
	}
}
