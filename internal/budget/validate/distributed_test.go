package validate_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

type dpdb = limpetv1alpha1.DistributedPodDisruptionBudget

func divided(ns string, edit func(*dpdb)) *dpdb {
	b := &dpdb{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}
	b.Spec.MaxUnavailable = new(intstr.FromInt32(1))
	b.Spec.Groups = &limpetv1alpha1.BudgetGroups{}
	edit(b)
	return b
}

func sliding(orderBy, label string, size, step int32) func(*dpdb) {
	return func(b *dpdb) {
		b.Spec.Groups.Sliding = &limpetv1alpha1.SlidingGroups{OrderBy: limpetv1alpha1.Order(orderBy), Label: label, Size: size, Step: step}
	}
}

// Each wrong field is named, with what to write instead.
func TestAWrongBudgetWithGroupsIsRefused(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	byLabel := func(key string) func(*dpdb) { return func(b *dpdb) { b.Spec.Groups.ByLabel = key } }
	spec := func(edit func(*limpetv1alpha1.DistributedPodDisruptionBudgetSpec)) func(*dpdb) {
		return func(b *dpdb) { b.Spec.Groups = nil; edit(&b.Spec) }
	}
	for name, tc := range map[string]struct {
		edit func(*dpdb)
		want string // "" for a valid one
	}{
		"no groups":          {func(b *dpdb) { b.Spec.Groups = nil }, ""},
		"by label":           {byLabel("topology.kubernetes.io/rack"), ""},
		"ring of ordinals":   {sliding("ordinal", "", 3, 1), ""},
		"ring of labels":     {sliding("label", "position", 5, 0), ""},
		"32 groups of a pod": {sliding("ordinal", "", 32, 1), ""},
		"neither":            {func(*dpdb) {}, "exactly one of byLabel and sliding must be set"},
		"both":               {func(b *dpdb) { byLabel("rack")(b); sliding("ordinal", "", 3, 1)(b) }, "exactly one of byLabel and sliding must be set"},
		"no key":             {byLabel("no key"), "spec.groups.byLabel"},
		"a long key":         {byLabel("a/" + strings.Repeat("x", 64)), "spec.groups.byLabel"},
		"no order":           {sliding("", "", 3, 1), "spec.groups.sliding.orderBy"},
		"another order":      {sliding("name", "", 3, 1), "spec.groups.sliding.orderBy"},
		"no label to order":  {sliding("label", "", 3, 1), "label must be set for orderBy label"},
		"a label too much":   {sliding("ordinal", "position", 3, 1), "label must be set for orderBy label"},
		"no size":            {sliding("ordinal", "", 0, 1), "spec.groups.sliding.size"},
		"a step back":        {sliding("ordinal", "", 3, -1), "spec.groups.sliding.step"},
		"a step too far":     {sliding("ordinal", "", 3, 4), "some pods would be in no group"},
		"too many of a pod":  {sliding("ordinal", "", 33, 1), "more than 32 groups"},
		"two numbers":        {spec(func(s *limpetv1alpha1.DistributedPodDisruptionBudgetSpec) { s.MinAvailable = new(intstr.FromInt32(1)) }), "exactly one of maxUnavailable and minAvailable"},
		"no number":          {spec(func(s *limpetv1alpha1.DistributedPodDisruptionBudgetSpec) { s.MaxUnavailable = nil }), "exactly one of maxUnavailable and minAvailable"},
		"a negative number": {spec(func(s *limpetv1alpha1.DistributedPodDisruptionBudgetSpec) {
			s.MaxUnavailable = new(intstr.FromInt32(-1))
		}), "spec.maxUnavailable"},
		"over 100%": {spec(func(s *limpetv1alpha1.DistributedPodDisruptionBudgetSpec) {
			s.MaxUnavailable = new(intstr.FromString("101%"))
		}), "spec.maxUnavailable"},
		"no selector":       {spec(func(s *limpetv1alpha1.DistributedPodDisruptionBudgetSpec) { s.Selector = nil }), "spec.selector"},
		"an empty selector": {spec(func(s *limpetv1alpha1.DistributedPodDisruptionBudgetSpec) { s.Selector = &metav1.LabelSelector{} }), "an empty selector would select every pod"},
		"a wrong annotation": {func(b *dpdb) {
			b.Spec.Groups, b.Annotations = nil, map[string]string{policyv1beta1.AnnotationVectors: "up=Check"}
		}, policyv1beta1.AnnotationVectors},
		"too long a selector": {spec(func(s *limpetv1alpha1.DistributedPodDisruptionBudgetSpec) {
			s.Selector.MatchExpressions = make([]metav1.LabelSelectorRequirement, 65)
			for i := range s.Selector.MatchExpressions {
				s.Selector.MatchExpressions[i] = metav1.LabelSelectorRequirement{Key: "app", Operator: "Exists"}
			}
		}), "spec.selector"},
	} {
		t.Run(name, func(t *testing.T) {
			err := env.Client.Create(t.Context(), divided(ns, tc.edit), client.DryRunAll)
			if tc.want == "" && err != nil || tc.want != "" && testenv.Refusal(err, tc.want) != nil {
				t.Errorf("answer %v, want %q", err, tc.want)
			}
		})
	}
}

// A dry run labels no namespace. The label is there before a budget is stored.
func TestABudgetWithGroupsLabelsItsNamespace(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	label := func() string {
		var object corev1.Namespace
		env.Read(t, client.ObjectKey{Name: ns}, &object)
		return object.Labels[policyv1beta1.LabelBudgets]
	}
	b := divided(ns, sliding("ordinal", "", 3, 1))
	if err := env.Client.Create(t.Context(), b.DeepCopy(), client.DryRunAll); err != nil || label() != "" {
		t.Errorf("a dry run: error %v, label %q", err, label())
	}
	env.Create(t, b)
	if label() != policyv1beta1.LabelBudgetsOpen {
		t.Errorf("label %q, want open", label())
	}
	b.Annotations = map[string]string{policyv1beta1.AnnotationStableSeconds: "no"}
	if err := testenv.Refusal(env.Client.Update(t.Context(), b), policyv1beta1.AnnotationStableSeconds); err != nil {
		t.Error(err)
	}
}
