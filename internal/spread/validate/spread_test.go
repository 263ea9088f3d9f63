package validate_test

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/spread/validate"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1alpha1 "github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

type (
	spread       = appsv1beta1.WorkloadSpread
	subset       = appsv1beta1.WorkloadSpreadSubset
	formerSpread = appsv1alpha1.WorkloadSpread
)

// ofSubsets is a spread of a Deployment that has its name, over two zones.
func ofSubsets(ns, name string, edit ...func(*spread)) *spread {
	s := &spread{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Annotations: map[string]string{}}}
	s.Spec.TargetReference = appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
	s.Spec.Subsets = []subset{{Name: "a", RequiredNodeSelector: inZone("zone-a"), MaxReplicas: number(3)}, {Name: "b", RequiredNodeSelector: inZone("zone-b")}}
	for _, e := range edit {
		e(s)
	}
	return s
}

func inZone(zone string) *corev1.NodeSelectorTerm {
	return &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}},
	}}
}

func number(n int32) *intstr.IntOrString      { return new(intstr.FromInt32(n)) }
func percent(text string) *intstr.IntOrString { return new(intstr.FromString(text)) }

// maxima gives a spread one subset for each number; nil for none.
func maxima(all ...*intstr.IntOrString) func(*spread) {
	return func(s *spread) {
		s.Spec.Subsets = nil
		for i, most := range all {
			s.Spec.Subsets = append(s.Spec.Subsets, subset{Name: fmt.Sprint("s", i), MaxReplicas: most})
		}
	}
}

func target(version, kind string) func(*spread) {
	return func(s *spread) { s.Spec.TargetReference.APIVersion, s.Spec.TargetReference.Kind = version, kind }
}

func patch(text string) func(*spread) {
	return func(s *spread) { s.Spec.Subsets[0].Patch.Raw = []byte(text) }
}

func first(edit func(*subset)) func(*spread) { return func(s *spread) { edit(&s.Spec.Subsets[0]) } }

func expression(key string, operator corev1.NodeSelectorOperator, values ...string) func(*spread) {
	return first(func(s *subset) {
		s.RequiredNodeSelector.MatchExpressions = []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}
	})
}

func nodeField(key string, operator corev1.NodeSelectorOperator, values ...string) func(*spread) {
	return first(func(s *subset) {
		s.RequiredNodeSelector.MatchFields = []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}
	})
}

func tolerates(t corev1.Toleration) func(*spread) {
	return first(func(s *subset) { s.Tolerations = []corev1.Toleration{t} })
}

func adaptive(a *appsv1beta1.AdaptiveSpread) func(*spread) {
	return func(s *spread) {
		s.Spec.ScheduleStrategy = appsv1beta1.WorkloadSpreadScheduleStrategy{Type: appsv1beta1.SpreadAdaptive, Adaptive: a}
	}
}

func prefers(weight int32, term corev1.NodeSelectorTerm) func(*spread) {
	return first(func(s *subset) {
		s.PreferredNodeSelector = []corev1.PreferredSchedulingTerm{{Weight: weight, Preference: term}}
	})
}

func TestSpreadsThatAreRefused(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	long := `{"metadata":{"annotations":{"a":"` + strings.Repeat("x", 64<<10) + `"}}}`
	cases := map[string]struct {
		edit  func(*spread)
		names string
	}{
		"no name of a target":           {func(s *spread) { s.Spec.TargetReference.Name = "" }, "spec.targetRef.name"},
		"no kind":                       {func(s *spread) { s.Spec.TargetReference.Kind = "" }, "spec.targetRef.kind"},
		"no version":                    {func(s *spread) { s.Spec.TargetReference.APIVersion = "" }, "spec.targetRef.apiVersion"},
		"a version that is none":        {target("a/b/c", "Deployment"), "spec.targetRef.apiVersion"},
		"a DaemonSet":                   {target("apps/v1", "DaemonSet"), "spec.targetRef.kind"},
		"a Deployment of another group": {target("apps.kruise.io/v1alpha1", "Deployment"), "spec.targetRef.kind"},
		"a CloneSet of another group":   {target("apps/v1", "CloneSet"), "spec.targetRef.kind"},
		"a Job of another group":        {target("apps/v1", "Job"), "spec.targetRef.kind"},
		"a CronJob":                     {target("batch/v1", "CronJob"), "spec.targetRef.kind"},
		"a pod":                         {target("v1", "Pod"), "spec.targetRef.kind"},
		"a UnitedDeployment":            {target("apps.kruise.io/v1alpha1", "UnitedDeployment"), "spec.targetRef.kind"},
		"a selector that cannot be read": {func(s *spread) {
			s.Spec.TargetFilter = &appsv1beta1.TargetFilter{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In"}}}}
		}, "spec.targetFilter.selector.matchExpressions[0].values"},
		"a path with an empty name": {func(s *spread) {
			s.Spec.TargetFilter = &appsv1beta1.TargetFilter{ReplicasPathList: []string{"spec..replicas"}}
		}, "spec.targetFilter.replicasPathList[0]"},
		"a path that begins with a dot": {func(s *spread) {
			s.Spec.TargetFilter = &appsv1beta1.TargetFilter{ReplicasPathList: []string{"spec.replicas", ".spec"}}
		}, "spec.targetFilter.replicasPathList[1]"},
		"no subsets":                        {maxima(), "spec.subsets"},
		"two subsets of one name":           {func(s *spread) { s.Spec.Subsets[1].Name = "a" }, "spec.subsets[1]"},
		"a subset without a name":           {func(s *spread) { s.Spec.Subsets[1].Name = "" }, "spec.subsets[1].name"},
		"a name that stands for no subset":  {first(func(s *subset) { s.Name = "kruise.io/workloadspread-fake-subset-name" }), "spec.subsets[0].name"},
		"too many subsets":                  {maxima(make([]*intstr.IntOrString, 65)...), "spec.subsets"},
		"a negative number":                 {maxima(number(-1), nil), "spec"},
		"more than 100%":                    {maxima(percent("101%"), nil), "spec.subsets[0].maxReplicas"},
		"a negative percentage":             {maxima(percent("-1%"), nil), "spec.subsets[0].maxReplicas"},
		"a number in quotes":                {maxima(percent("5"), nil), "spec.subsets[0].maxReplicas"},
		"a word":                            {maxima(percent("most"), nil), "spec.subsets[0].maxReplicas"},
		"numbers and percentages":           {maxima(number(5), percent("50%"), nil), "maxReplicas of all subsets"},
		"percentages beyond 100%":           {maxima(percent("60%"), percent("60%")), "spec.subsets[1].maxReplicas"},
		"… with a last subset for the rest": {maxima(percent("60%"), percent("41%"), nil), "spec.subsets[1].maxReplicas"},
		"percentages below 100%":            {maxima(percent("60%"), percent("30%")), "must add up to 100%"},

		"a key that is not a label's key": {expression("a b", corev1.NodeSelectorOpExists), "spec.subsets[0].requiredNodeSelector.matchExpressions[0].key"},
		"no operator":                     {expression("a", ""), "spec.subsets[0].requiredNodeSelector.matchExpressions[0].operator"},
		"an unknown operator":             {expression("a", "Near", "b"), "spec.subsets[0].requiredNodeSelector.matchExpressions[0].operator"},
		"In without values":               {expression("a", corev1.NodeSelectorOpIn), "spec.subsets[0].requiredNodeSelector.matchExpressions[0].values"},
		"Exists with values":              {expression("a", corev1.NodeSelectorOpExists, "b"), "spec.subsets[0].requiredNodeSelector.matchExpressions[0].values"},
		"Gt with two values":              {expression("a", corev1.NodeSelectorOpGt, "1", "2"), "spec.subsets[0].requiredNodeSelector.matchExpressions[0].values"},
		"a value that no label has":       {expression("a", corev1.NodeSelectorOpIn, "a b"), "spec.subsets[0].requiredNodeSelector.matchExpressions[0].values[0]"},
		"very many values":                {expression("a", corev1.NodeSelectorOpIn, make([]string, 257)...), "spec.subsets[0].requiredNodeSelector.matchExpressions[0].values"},
		"very many expressions": {first(func(s *subset) {
			s.RequiredNodeSelector.MatchExpressions = make([]corev1.NodeSelectorRequirement, 65)
		}), "spec.subsets[0].requiredNodeSelector"},
		"a field that nodes cannot be selected by":    {nodeField("spec.unschedulable", corev1.NodeSelectorOpIn, "false"), "spec.subsets[0].requiredNodeSelector.matchFields[0].key"},
		"a field that exists":                         {nodeField("metadata.name", corev1.NodeSelectorOpExists), "spec.subsets[0].requiredNodeSelector.matchFields[0].operator"},
		"two nodes":                                   {nodeField("metadata.name", corev1.NodeSelectorOpIn, "n1", "n2"), "spec.subsets[0].requiredNodeSelector.matchFields[0].values"},
		"a node that is none":                         {nodeField("metadata.name", corev1.NodeSelectorOpIn, "N 1"), "spec.subsets[0].requiredNodeSelector.matchFields[0].values[0]"},
		"a weight of 0":                               {prefers(0, *inZone("a")), "spec.subsets[0].preferredNodeSelector[0].weight"},
		"a weight of 101":                             {prefers(101, *inZone("a")), "spec.subsets[0].preferredNodeSelector[0].weight"},
		"a preferred term with a wrong key":           {prefers(1, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a b", Operator: "Exists"}}}), "spec.subsets[0].preferredNodeSelector[0].preference.matchExpressions[0].key"},
		"a toleration of a wrong key":                 {tolerates(corev1.Toleration{Key: "a b"}), "spec.subsets[0].tolerations[0].key"},
		"a toleration without a key":                  {tolerates(corev1.Toleration{Value: "a"}), "spec.subsets[0].tolerations[0].operator"},
		"a toleration with an unknown operator":       {tolerates(corev1.Toleration{Key: "a", Operator: "Near"}), "spec.subsets[0].tolerations[0].operator"},
		"a toleration with a value beside Exists":     {tolerates(corev1.Toleration{Key: "a", Operator: "Exists", Value: "b"}), "spec.subsets[0].tolerations[0].value"},
		"a toleration with a value that no taint has": {tolerates(corev1.Toleration{Key: "a", Value: "a b"}), "spec.subsets[0].tolerations[0].value"},
		"a toleration of more than a word":            {tolerates(corev1.Toleration{Key: "a", Operator: "Gt", Value: "b"}), "spec.subsets[0].tolerations[0].value"},
		"a toleration of an unknown effect":           {tolerates(corev1.Toleration{Key: "a", Effect: "Sometimes"}), "spec.subsets[0].tolerations[0].effect"},
		"a toleration for a time, of NoSchedule":      {tolerates(corev1.Toleration{Key: "a", Effect: "NoSchedule", TolerationSeconds: new(int64)}), "spec.subsets[0].tolerations[0].effect"},

		"a patch of another name":           {patch(`{"metadata":{"name":"x"}}`), "spec.subsets[0].patch.metadata[name]"},
		"a patch of owners":                 {patch(`{"metadata":{"ownerReferences":[]}}`), "spec.subsets[0].patch.metadata[ownerReferences]"},
		"a patch of all metadata":           {patch(`{"metadata":{"$patch":"replace","labels":{}}}`), "spec.subsets[0].patch.metadata[$patch]"},
		"a patch of the status":             {patch(`{"status":{"phase":"Failed"}}`), "spec.subsets[0].patch.status"},
		"a patch that replaces the pod":     {patch(`{"$patch":"replace","spec":{}}`), "spec.subsets[0].patch[$patch]"},
		"a patch with a wrong type":         {patch(`{"spec":{"priority":"high"}}`), "spec.subsets[0].patch"},
		"a patch with a list of a word":     {patch(`{"spec":{"containers":"web"}}`), "spec.subsets[0].patch"},
		"a patch without a merge key":       {patch(`{"spec":{"containers":[{"image":"x"}]}}`), "merge key"},
		"a patch with a wrong directive":    {patch(`{"spec":{"containers":[{"name":"web","$patch":"drop"}]}}`), "spec.subsets[0].patch"},
		"a patch with labels of numbers":    {patch(`{"metadata":{"labels":{"a":1}}}`), "spec.subsets[0].patch"},
		"a patch with a label that is none": {patch(`{"metadata":{"labels":{"a b":"c"}}}`), "makes pods that the API server refuses: metadata.labels"},
		"a patch with a limit too low":      {patch(`{"spec":{"containers":[{"name":"web","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"2"}}}]}}`), "above its limit"},
		"a very long patch":                 {patch(long), "spec.subsets[0].patch"},
		"a patch of a very long list":       {patch(`{"metadata":{"finalizers":[` + strings.Repeat(`"a",`, 700) + `"b"]}}`), "too long to be merged"},

		"an unknown strategy":       {func(s *spread) { s.Spec.ScheduleStrategy.Type = "Loose" }, "spec.scheduleStrategy.type"},
		"adaptive without its type": {func(s *spread) { s.Spec.ScheduleStrategy.Adaptive = &appsv1beta1.AdaptiveSpread{} }, "type must be Adaptive"},
		"adaptive while Fixed": {func(s *spread) {
			adaptive(&appsv1beta1.AdaptiveSpread{})(s)
			s.Spec.ScheduleStrategy.Type = appsv1beta1.SpreadFixed
		}, "type must be Adaptive"},
		"adaptive without a rest":      {func(s *spread) { adaptive(&appsv1beta1.AdaptiveSpread{})(s); maxima(number(1), number(2))(s) }, "last subset"},
		"a time below 0":               {adaptive(&appsv1beta1.AdaptiveSpread{RescheduleCriticalSeconds: new(int32(-1))}), "spec.scheduleStrategy.adaptive.rescheduleCriticalSeconds"},
		"no time to recover":           {adaptive(&appsv1beta1.AdaptiveSpread{RecoverySeconds: new(int32(0))}), "spec.scheduleStrategy.adaptive.recoverySeconds"},
		"an unknown policy of return":  {adaptive(&appsv1beta1.AdaptiveSpread{ReturnPolicy: "Soon"}), "spec.scheduleStrategy.adaptive.returnPolicy"},
		"an unknown policy of failure": {func(s *spread) { s.Annotations["limpet.dev/failure-policy"] = "Ignore" }, "metadata.annotations[limpet.dev/failure-policy]"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := ofSubsets(ns, "web", tc.edit)
			if err := testenv.Refusal(env.Client.Create(t.Context(), s), tc.names); err != nil {
				t.Error(err)
			}
			alpha := &formerSpread{}
			if err := alpha.ConvertFrom(s); err != nil {
				t.Fatal(err)
			}
			former := strings.NewReplacer("].requiredNodeSelector", "].requiredNodeSelectorTerm", "].preferredNodeSelector", "].preferredNodeSelectorTerms").Replace(tc.names)
			if err := testenv.Refusal(env.Client.Create(t.Context(), alpha), former); err != nil {
				t.Errorf("v1alpha1: %v", err)
			}
		})
	}
	var left appsv1beta1.WorkloadSpreadList
	if err := env.Client.List(t.Context(), &left, client.InNamespace(ns)); err != nil || len(left.Items) > 0 {
		t.Errorf("%d spreads were stored (%v)", len(left.Items), err)
	}
	if got := spreadsLabel(t, ns); got != "" {
		t.Errorf("the namespace has the label %q", got)
	}
}

// What OpenKruise accepts is accepted, and percentages of StatefulSets beside it.
// A kind of Kubernetes that is no target otherwise is one when a user names it.
func TestANamedKindIsATarget(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	cron := ofSubsets(ns, "cron", target("batch/v1", "CronJob"))
	if err := env.Client.Create(t.Context(), cron.DeepCopy()); !apierrors.IsInvalid(err) {
		t.Errorf("before the kind is named: %v", err)
	}
	env.NameKinds(t)
	env.NameSpreadKinds(t, `{"workloads":[{"Group":"batch","Version":"v1","Kind":"CronJob"}]}`)
	env.Create(t, cron)
}

func TestSpreadsThatAreAccepted(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	everything := `{"metadata":{"labels":{"subset":"a"},"annotations":{"a":"b"},"finalizers":["example.com/f"]},"apiVersion":"v1","kind":"Pod",
		"spec":{"priorityClassName":"high","nodeSelector":{"a":"b"},"containers":[{"name":"web","resources":{"limits":{"cpu":"1"}},
		"env":[{"name":"A","value":"b"},{"name":"B","$patch":"delete"}]}],"tolerations":[{"key":"a","operator":"Exists"}]}}`
	cases := map[string]func(*spread){
		"a Deployment":                      func(*spread) {},
		"a ReplicaSet":                      target("apps/v1", "ReplicaSet"),
		"a Job":                             target("batch/v1", "Job"),
		"a StatefulSet":                     target("apps/v1", "StatefulSet"),
		"a StatefulSet, in percent":         func(s *spread) { target("apps/v1", "StatefulSet")(s); maxima(percent("50%"), nil)(s) },
		"a StatefulSet of OpenKruise":       target("apps.kruise.io/v1beta1", "StatefulSet"),
		"a CloneSet":                        target("apps.kruise.io/v1alpha1", "CloneSet"),
		"a Rollout":                         target("argoproj.io/v1alpha1", "Rollout"),
		"one subset without a number":       maxima(nil),
		"one subset with a number":          maxima(number(0)),
		"percentages of 100% together":      maxima(percent("34%"), percent("33%"), percent("33%")),
		"percentages and a rest":            maxima(percent("20%"), nil),
		"a subset without a number between": maxima(number(1), nil, number(2)),
		"the largest number":                maxima(number(1<<31-1), nil),
		"many subsets":                      maxima(append(make([]*intstr.IntOrString, 0, 64), make([]*intstr.IntOrString, 64)...)...),
		"a patch of everything":             patch(everything),
		"an empty patch":                    patch(`{}`),
		"a patch that is null":              patch(`null`),
		"a filter": func(s *spread) {
			s.Spec.TargetFilter = &appsv1beta1.TargetFilter{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "w"}}, ReplicasPathList: []string{"spec.groups.0.replicas"}}
		},
		"a filter without a selector": func(s *spread) {
			s.Spec.TargetFilter = &appsv1beta1.TargetFilter{ReplicasPathList: []string{"spec.replicas"}}
		},
		"an empty filter":                    func(s *spread) { s.Spec.TargetFilter = &appsv1beta1.TargetFilter{Selector: &metav1.LabelSelector{}} },
		"Fixed":                              func(s *spread) { s.Spec.ScheduleStrategy.Type = appsv1beta1.SpreadFixed },
		"Adaptive without settings":          func(s *spread) { adaptive(nil)(s); maxima(number(1), number(2))(s) },
		"Adaptive, one subset with a number": func(s *spread) { adaptive(&appsv1beta1.AdaptiveSpread{})(s); maxima(number(1))(s) },
		"all settings of Adaptive": adaptive(&appsv1beta1.AdaptiveSpread{
			DisableSimulationSchedule: true, RescheduleCriticalSeconds: new(int32(1<<31 - 1)), RecoverySeconds: new(int32(1)), ReturnPolicy: "WhenRecovered",
		}),
		"values that no label has, preferred": prefers(1, *inZone("a b")),
		"a toleration of everything":          tolerates(corev1.Toleration{Operator: "Exists"}),
		"a toleration for a time":             tolerates(corev1.Toleration{Key: "a", Effect: "NoExecute", TolerationSeconds: new(int64(60))}),
		"a node by its name":                  nodeField("metadata.name", corev1.NodeSelectorOpNotIn, "n1"),
		"an empty required term":              first(func(s *subset) { s.RequiredNodeSelector = &corev1.NodeSelectorTerm{} }),
		"failure policy Open":                 func(s *spread) { s.Annotations["limpet.dev/failure-policy"] = "Open" },
	}
	for name, edit := range cases {
		t.Run(name, func(t *testing.T) {
			s := ofSubsets(ns, "web", edit)
			alpha := &formerSpread{}
			if err := alpha.ConvertFrom(s.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			for _, o := range []client.Object{s, alpha} {
				if err := env.Client.Create(t.Context(), o, client.DryRunAll); err != nil {
					t.Errorf("%T: %v", o, err)
				}
			}
		})
	}
}

// A number that a client in Go cannot read would end every list request of such clients. The
// CRD refuses it, so that no webhook is needed.
func TestNumbersOfSpreadsThatNoClientCanReadAreRefused(t *testing.T) {
	env.Since(t, 36, "check of the format int32: the webhooks refuse such numbers there")
	ns := env.Namespace(t)
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		for name, spec := range map[string]map[string]any{
			"maxReplicas":               {"subsets": []any{map[string]any{"name": "a", "maxReplicas": int64(1) << 40}}},
			"rescheduleCriticalSeconds": {"scheduleStrategy": map[string]any{"type": "Adaptive", "adaptive": map[string]any{"rescheduleCriticalSeconds": int64(1) << 40}}},
			"recoverySeconds":           {"scheduleStrategy": map[string]any{"type": "Adaptive", "adaptive": map[string]any{"recoverySeconds": int64(1) << 40}}},
		} {
			t.Run(version+"/"+name, func(t *testing.T) {
				o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps.kruise.io/" + version, "kind": "WorkloadSpread"}}
				o.SetNamespace(ns)
				o.SetName("long")
				spec["targetRef"] = map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
				if spec["subsets"] == nil {
					spec["subsets"] = []any{map[string]any{"name": "a"}}
				}
				o.Object["spec"] = spec
				if err := testenv.Refusal(env.Client.Create(t.Context(), o), name); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestASecondSpreadOfATargetIsRefused(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	env.Create(t, ofSubsets(ns, "web"))
	second := ofSubsets(ns, "second", func(s *spread) { s.Spec.TargetReference.Name, s.Spec.TargetReference.APIVersion = "web", "apps/v2" })
	if err := testenv.Refusal(env.Client.Create(t.Context(), second), "WorkloadSpread web has the same target"); err != nil {
		t.Error(err)
	}
	alpha := testenv.AFormerSpread("second", ns)
	alpha.Spec.TargetReference.Name = "web"
	if err := testenv.Refusal(env.Client.Create(t.Context(), alpha), "spec.targetRef"); err != nil {
		t.Error(err)
	}
	env.Create(t, ofSubsets(env.Namespace(t), "web"), ofSubsets(ns, "other"),
		ofSubsets(ns, "set", target("apps/v1", "StatefulSet"), func(s *spread) { s.Spec.TargetReference.Name = "web" }))
}

func TestTheTargetOfASpreadIsImmutable(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	env.Create(t, ofSubsets(ns, "web"))
	for name, edit := range map[string]func(*spread){
		"name":  func(s *spread) { s.Spec.TargetReference.Name = "other" },
		"kind":  func(s *spread) { s.Spec.TargetReference.Kind = "ReplicaSet" },
		"group": target("apps.kruise.io/v1beta1", "Deployment"),
	} {
		t.Run(name, func(t *testing.T) {
			s, alpha := &spread{}, &formerSpread{}
			env.Read(t, client.ObjectKey{Namespace: ns, Name: "web"}, s)
			env.Read(t, client.ObjectKey{Namespace: ns, Name: "web"}, alpha)
			edit(s)
			alpha.Spec.TargetReference = s.Spec.TargetReference
			for _, o := range []client.Object{s, alpha} {
				if err := testenv.Refusal(env.Client.Update(t.Context(), o), "immutable"); err != nil {
					t.Errorf("%T: %v", o, err)
				}
			}
		})
	}
	s := ofSubsets(ns, "web")
	env.Change(t, s, func() { // all else may change
		s.Spec.TargetReference.APIVersion = "apps/v2"
		s.Spec.Subsets = []subset{{Name: "c"}}
		s.Spec.TargetFilter = &appsv1beta1.TargetFilter{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}
	})
}

// A patch is judged by the containers that the workload has.
func TestPatchesAreJudgedByTheTemplateOfTheWorkload(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 1).In(ns).StatefulSet
	env.Create(t, set)
	name := set.Spec.Template.Spec.Containers[0].Name
	env3 := func(container string) string {
		return fmt.Sprintf(`{"spec":{"containers":[{"name":%q,"env":[{"name":"A","value":"b"}]}]}}`, container)
	}
	of := func(text string) *spread { return ofSubsets(ns, "web", target("apps/v1", "StatefulSet"), patch(text)) }
	err := env.Client.Create(t.Context(), of(env3("wbe")), client.DryRunAll)
	for _, want := range []string{"spec.subsets[0].patch", `the container "wbe" without an image`, "the name of a container of the workload"} {
		if err := testenv.Refusal(err, want); err != nil {
			t.Error(err)
		}
	}
	if err := testenv.Refusal(env.Client.Create(t.Context(), of(fmt.Sprintf(`{"spec":{"containers":[{"name":%q,"$patch":"delete"}]}}`, name))), "without containers"); err != nil {
		t.Error(err)
	}
	good := of(env3(name))
	env.Create(t, good)
	edit := func(text string) error {
		after := good.DeepCopy()
		after.Spec.Subsets[0].Patch.Raw = []byte(text)
		return env.Client.Update(t.Context(), after, client.DryRunAll)
	}
	if err := testenv.Refusal(edit(env3("wbe")), "spec.subsets[0].patch"); err != nil {
		t.Error(err)
	}
	if err := edit(fmt.Sprintf(`{"spec":{"containers":[{"name":"log","image":"log"},{"name":%q,"image":"x"}]}}`, name)); err != nil {
		t.Error(err)
	}
	later := ofSubsets(ns, "later", patch(env3("wbe"))) // its Deployment may have such a container
	if err := env.Client.Create(t.Context(), later, client.DryRunAll); err != nil {
		t.Error(err)
	}
}

func TestUselessSpreadsAreWarnedOf(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	cases := map[string]struct {
		object *spread
		word   string
	}{
		"a namespace whose pods are left out": {ofSubsets("kube-system", "web"), "kube-system"},
		"Adaptive that does nothing":          {ofSubsets(ns, "web", adaptive(nil)), "rescheduleCriticalSeconds above 0"},
		"a subset that takes all pods":        {ofSubsets(ns, "web", maxima(number(1), nil, number(1))), "spec.subsets[1] has no maxReplicas"},
		"a number of pods":                    {ofSubsets(ns, "web", maxima(number(1), number(1<<31-1))), "spec.subsets take 2147483648 pods"},
		"a field that pods do not have":       {ofSubsets(ns, "web", patch(`{"spec":{"prioritiy":1}}`)), "prioritiy"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, heard := env.Listen(t)
			if err := c.Create(t.Context(), tc.object, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			if err := heard.Names(tc.word); err != nil {
				t.Error(err)
			}
		})
	}
	for name, s := range map[string]*spread{
		"ordinary":  ofSubsets(ns, "web"),
		"elastic":   ofSubsets(ns, "web", maxima(nil, nil), adaptive(&appsv1beta1.AdaptiveSpread{RescheduleCriticalSeconds: new(int32(30))})),
		"all pods":  ofSubsets(ns, "web", maxima(percent("50%"), percent("50%"))),
		"a patch":   ofSubsets(ns, "web", patch(`{"spec":{"containers":[{"name":"a","$patch":"delete"}],"$retainKeys":["containers"]}}`)),
		"one place": ofSubsets(ns, "web", maxima(nil)),
	} {
		c, heard := env.Listen(t)
		if err := c.Create(t.Context(), s, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
		if err := heard.Names("spec"); err == nil {
			t.Errorf("%s: warned of", name)
		}
	}
}

// A Deployment whose maxUnavailable is none deletes no pod before its successor is Ready, which never
// comes in a subset that is exactly full. The user hears of it before the first rollout.
func TestASurgeIntoAFullSubsetIsWarnedOf(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	for name, tc := range map[string]struct {
		replicas    int32
		unavailable *intstr.IntOrString
		edit        func(*spread)
		warned      bool
	}{
		"surges":                 {8, number(0), func(*spread) {}, true},
		"too-few-for-25-percent": {3, nil, func(*spread) {}, true},
		"25-percent":             {4, nil, func(*spread) {}, false},
		"makes-room":             {8, number(1), func(*spread) {}, false},
		"without-maximum":        {8, number(0), maxima(nil), false},
	} {
		t.Run(name, func(t *testing.T) {
			like := testenv.AStatefulSet(name, 1)
			d := &appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns},
				Spec:       appsv1.DeploymentSpec{Selector: like.Spec.Selector, Template: like.Spec.Template},
			}
			d.Spec.Replicas = &tc.replicas
			if tc.unavailable != nil {
				d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: tc.unavailable, MaxSurge: number(1)}
			}
			env.Create(t, d)
			c, heard := env.Listen(t)
			if err := c.Create(t.Context(), ofSubsets(ns, name, tc.edit), client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			if err := heard.Names("maxUnavailable"); (err == nil) != tc.warned {
				t.Errorf("%v, want a warning: %t", err, tc.warned)
			}
		})
	}
}

// What was wrong before the controller came hinders no other change.
func TestASpreadThatWasWrongBeforeCanBeChanged(t *testing.T) {
	webhook := validate.WorkloadSpread{}
	wrong := testenv.AFormerSpread("wrong", "ns")
	wrong.Spec.Subsets[1].PreferredNodeSelectorTerms[0].Weight = 0
	edit := func(do func(*formerSpread)) (admission.Warnings, error) {
		after := wrong.DeepCopy()
		do(after)
		return webhook.ValidateUpdate(testenv.AsFormer(t.Context()), testenv.Hub(t, wrong, &spread{}), testenv.Hub(t, after, &spread{}))
	}
	warnings, err := edit(func(s *formerSpread) { s.Spec.Subsets[0].MaxReplicas = percent("40%") })
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "preferredNodeSelectorTerms[0].weight") {
		t.Errorf("another field changes: %v, warnings %q, want one of the weight", err, warnings)
	}
	if warnings, err := edit(func(s *formerSpread) { s.Labels = map[string]string{"a": "b"} }); err != nil || warnings != nil {
		t.Errorf("a label changes: %v, warnings %q", err, warnings)
	}
	_, err = edit(func(s *formerSpread) { s.Spec.Subsets[1].PreferredNodeSelectorTerms[0].Weight = 200 })
	if err := testenv.Refusal(err, "spec.subsets[1].preferredNodeSelectorTerms[0].weight"); err != nil {
		t.Error(err)
	}
}

// spreadsLabel is what a namespace says about its spreads; "" for nothing.
func spreadsLabel(t *testing.T, ns string) string {
	t.Helper()
	var namespace corev1.Namespace
	env.Read(t, client.ObjectKey{Name: ns}, &namespace)
	return namespace.Labels["limpet.dev/spreads"]
}

// The label is there as soon as the spread is.
func TestTheNamespaceOfASpreadIsLabelled(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	labelled := func(want string) {
		t.Helper()
		if got := spreadsLabel(t, ns); got != want {
			t.Errorf("label %q, want %q", got, want)
		}
	}
	open := func(s *spread) { s.Annotations["limpet.dev/failure-policy"] = "Open" }
	for _, o := range []client.Object{ofSubsets(ns, "dry"), testenv.AFormerSpread("dry", ns)} {
		if err := env.Client.Create(t.Context(), o, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
	}
	labelled("")
	first := ofSubsets(ns, "first", open)
	env.Create(t, first)
	labelled("open")
	env.Change(t, first, func() { first.Annotations = nil })
	labelled("open") // the leader closes the namespace

	other := env.Namespace(t)
	env.Create(t, testenv.AFormerSpread("alpha", other))
	if got := spreadsLabel(t, other); got != "open" {
		t.Errorf("label %q, want open until the leader has seen the spread", got)
	}
}

// OpenKruise's proposal has minReplicas, which neither OpenKruise nor Limpet knows. A strict client is
// refused, and any other one is warned.
func TestMinReplicasIsNoField(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	former := map[string]any{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "WorkloadSpread", "metadata": map[string]any{"namespace": ns, "name": "web"}, "spec": map[string]any{
		"targetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
		"subsets":   []any{map[string]any{"name": "a", "maxReplicas": int64(3), "minReplicas": int64(1)}, map[string]any{"name": "b"}},
	}}
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		o := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(former)}
		o.SetAPIVersion("apps.kruise.io/" + version)
		c, heard := env.Listen(t)
		err := client.WithFieldValidation(c, metav1.FieldValidationStrict).Create(t.Context(), o.DeepCopy())
		if err == nil || !strings.Contains(err.Error(), `unknown field "spec.subsets[0].minReplicas"`) {
			t.Errorf("%s: a strict client has %v", version, err)
		}
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if err := heard.Names("minReplicas"); err != nil {
			t.Errorf("%s: %v", version, err)
		}
		if text, err := o.MarshalJSON(); err != nil || strings.Contains(string(text), "minReplicas") {
			t.Errorf("%s: stored %s, %v", version, text, err)
		}
		env.Remove(t, o)
	}
}
