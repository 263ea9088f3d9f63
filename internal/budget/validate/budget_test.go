package validate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/budget/validate"
	"github.com/limpet-io/limpet/internal/testenv"
	policyv1alpha1 "github.com/limpet-io/limpet/pkg/api/policy/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

type (
	pub       = policyv1beta1.PodUnavailableBudget
	formerPub = policyv1alpha1.PodUnavailableBudget
)

// ofSelector is a budget for the pods with a label that has its name.
func ofSelector(ns, name string, edit ...func(*pub)) *pub {
	b := &pub{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Annotations: map[string]string{}}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
	b.Spec.MaxUnavailable = new(intstr.FromInt32(1))
	for _, e := range edit {
		e(b)
	}
	return b
}

// ofTarget is a budget for the pods of a Deployment that has its name.
func ofTarget(ns, name string, edit ...func(*pub)) *pub {
	b := ofSelector(ns, name)
	b.Spec.Selector, b.Spec.TargetReference = nil, &policyv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
	for _, e := range edit {
		e(b)
	}
	return b
}

// formerOfTarget is ofTarget in v1alpha1.
func formerOfTarget(ns, name string, edit ...func(*formerPub)) *formerPub {
	b := &formerPub{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name, Annotations: map[string]string{}}}
	b.Spec.TargetReference = &policyv1alpha1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}
	b.Spec.MaxUnavailable = new(intstr.FromInt32(1))
	for _, e := range edit {
		e(b)
	}
	return b
}

func with(key, value string) func(*pub) { return func(b *pub) { b.Annotations[key] = value } }

func formerWith(key, value string) func(*formerPub) {
	return func(b *formerPub) { b.Annotations[key] = value }
}

func TestBudgetsThatAreRefused(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	percent := func(s string) func(*pub) {
		return func(b *pub) { b.Spec.MaxUnavailable = new(intstr.FromString(s)) }
	}
	cases := map[string]struct {
		object client.Object
		names  string
	}{
		"selector and target":     {ofTarget(ns, "a", func(b *pub) { b.Spec.Selector = ofSelector(ns, "a").Spec.Selector }), "exactly one of selector and targetRef"},
		"no pods":                 {ofTarget(ns, "a", func(b *pub) { b.Spec.TargetReference = nil }), "exactly one of selector and targetRef"},
		"both numbers":            {ofTarget(ns, "a", func(b *pub) { b.Spec.MinAvailable = b.Spec.MaxUnavailable }), "exactly one of maxUnavailable and minAvailable"},
		"no number":               {ofTarget(ns, "a", func(b *pub) { b.Spec.MaxUnavailable = nil }), "exactly one of maxUnavailable and minAvailable"},
		"a number below 0":        {ofTarget(ns, "a", func(b *pub) { b.Spec.MaxUnavailable = new(intstr.FromInt32(-1)) }), "spec.maxUnavailable"},
		"more than all":           {ofTarget(ns, "a", percent("101%")), "spec.maxUnavailable"},
		"a word":                  {ofTarget(ns, "a", percent("half")), "spec.maxUnavailable"},
		"a number as a word":      {ofTarget(ns, "a", percent("1")), "spec.maxUnavailable"},
		"an empty selector":       {ofSelector(ns, "a", func(b *pub) { b.Spec.Selector.MatchLabels = nil }), "spec.selector"},
		"no label":                {ofSelector(ns, "a", func(b *pub) { b.Spec.Selector.MatchLabels = map[string]string{"a b": ""} }), "spec.selector.matchLabels"},
		"an operator that is not": {ofSelector(ns, "a", func(b *pub) { b.Spec.Selector.MatchExpressions = requirement("a", "Is") }), "spec.selector.matchExpressions[0].operator"},
		"many labels": {ofSelector(ns, "a", func(b *pub) {
			for i := range 64 {
				b.Spec.Selector.MatchLabels[fmt.Sprint("a", i)] = ""
			}
		}), "spec.selector"},
		"many values": {ofSelector(ns, "a", func(b *pub) {
			b.Spec.Selector.MatchExpressions = requirement("a", metav1.LabelSelectorOpIn)
			b.Spec.Selector.MatchExpressions[0].Values = make([]string, 257)
		}), "spec.selector.matchExpressions[0].values"},
		"many values together": {ofSelector(ns, "a", func(b *pub) {
			b.Spec.Selector.MatchExpressions = slices.Concat(requirement("a", metav1.LabelSelectorOpIn), requirement("b", metav1.LabelSelectorOpIn))
			b.Spec.Selector.MatchExpressions[0].Values = make([]string, 200)
			b.Spec.Selector.MatchExpressions[1].Values = make([]string, 57)
		}), "spec.selector.matchExpressions[1].values"},
		"no version":               {ofTarget(ns, "a", func(b *pub) { b.Spec.TargetReference.APIVersion = "a/b/c" }), "spec.targetRef.apiVersion"},
		"an operation that is not": {ofTarget(ns, "a", func(b *pub) { b.Spec.ProtectOperations = []policyv1beta1.Operation{"PATCH"} }), "spec.protectOperations[0]"},
		"a size of 0":              {ofTarget(ns, "a", func(b *pub) { b.Spec.ProtectTotalReplicas = new(int32(0)) }), "spec.protectTotalReplicas"},
		"all pods ignored":         {ofTarget(ns, "a", func(b *pub) { b.Spec.IgnoredPodSelector = &metav1.LabelSelector{} }), "spec.ignoredPodSelector"},
		"an unknown vector":        {ofTarget(ns, "a", with("limpet.dev/vectors", "flood=Check")), "metadata.annotations[limpet.dev/vectors]"},
		"a policy of failure":      {ofTarget(ns, "a", with("limpet.dev/failure-policy", "Ignore")), "metadata.annotations[limpet.dev/failure-policy]"},
		"a place to keep":          {ofTarget(ns, "a", with("limpet.dev/keep-place", "always")), "metadata.annotations[limpet.dev/keep-place]"},
		"a stable time":            {ofTarget(ns, "a", with("limpet.dev/stable-seconds", "5m")), "metadata.annotations[limpet.dev/stable-seconds]"},
		"a scale to ignore":        {ofTarget(ns, "a", with("pub.kruise.io/disable-fetch-replicas-from-workload", "si")), "metadata.annotations[pub.kruise.io/disable-fetch-replicas-from-workload]"},
		"no room for the fields":   {ofTarget(ns, "a", with("x", strings.Repeat("x", 256*1024-10)), func(b *pub) { b.Spec.ProtectTotalReplicas = new(int32(9)) }), "metadata.annotations"},

		"v1alpha1: no name":               {formerOfTarget(ns, "a", func(b *formerPub) { b.Spec.TargetReference.Name = "" }), "spec.targetRef.name"},
		"v1alpha1: no kind":               {formerOfTarget(ns, "a", func(b *formerPub) { b.Spec.TargetReference.Kind = "" }), "spec.targetRef.kind"},
		"v1alpha1: no version":            {formerOfTarget(ns, "a", func(b *formerPub) { b.Spec.TargetReference.APIVersion = "" }), "spec.targetRef.apiVersion"},
		"v1alpha1: no number":             {formerOfTarget(ns, "a", func(b *formerPub) { b.Spec.MaxUnavailable = nil }), "exactly one of maxUnavailable and minAvailable"},
		"v1alpha1: more than all":         {formerOfTarget(ns, "a", func(b *formerPub) { b.Spec.MaxUnavailable = new(intstr.FromString("200%")) }), "spec.maxUnavailable"},
		"v1alpha1: an unknown operation":  {formerOfTarget(ns, "a", formerWith("kruise.io/pub-protect-operations", "DELETE,PATCH")), "metadata.annotations[kruise.io/pub-protect-operations]"},
		"v1alpha1: a blank":               {formerOfTarget(ns, "a", formerWith("kruise.io/pub-protect-operations", "DELETE, EVICT")), "without blanks"},
		"v1alpha1: a size of 0":           {formerOfTarget(ns, "a", formerWith("pub.kruise.io/protect-total-replicas", "0")), "metadata.annotations[pub.kruise.io/protect-total-replicas]"},
		"v1alpha1: all pods ignored":      {formerOfTarget(ns, "a", formerWith("limpet.dev/ignored-pod-selector", "{}")), "metadata.annotations[limpet.dev/ignored-pod-selector]"},
		"v1alpha1: no selector to ignore": {formerOfTarget(ns, "a", formerWith("limpet.dev/ignored-pod-selector", "app=b")), "metadata.annotations[limpet.dev/ignored-pod-selector]"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := testenv.Refusal(env.Client.Create(t.Context(), tc.object), tc.names); err != nil {
				t.Error(err)
			}
		})
	}
	var left policyv1beta1.PodUnavailableBudgetList
	if err := env.Client.List(t.Context(), &left, client.InNamespace(ns)); err != nil || len(left.Items) > 0 {
		t.Errorf("%d budgets were stored (%v)", len(left.Items), err)
	}
}

func requirement(key string, operator metav1.LabelSelectorOperator) []metav1.LabelSelectorRequirement {
	return []metav1.LabelSelectorRequirement{{Key: key, Operator: operator}}
}

// A number that a client in Go cannot read would end every list request of such clients. The
// CRD refuses it, so that no webhook is needed.
func TestNumbersThatNoClientCanReadAreRefused(t *testing.T) {
	env.Since(t, 36, "check of the format int32: the webhook refuses such numbers there")
	ns := env.Namespace(t)
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		for name, spec := range map[string]map[string]any{
			"maxUnavailable":       {"maxUnavailable": int64(1) << 40},
			"minAvailable":         {"minAvailable": int64(1) << 40},
			"protectTotalReplicas": {"maxUnavailable": int64(1), "protectTotalReplicas": int64(1) << 40},
		} {
			if version == "v1alpha1" && name == "protectTotalReplicas" {
				continue // not a field there
			}
			t.Run(version+"/"+name, func(t *testing.T) {
				o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "policy.kruise.io/" + version, "kind": "PodUnavailableBudget"}}
				o.SetNamespace(ns)
				o.SetName("long")
				spec["selector"] = map[string]any{"matchLabels": map[string]any{"a": "b"}}
				o.Object["spec"] = spec
				if err := testenv.Refusal(env.Client.Create(t.Context(), o), "spec."+name); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestBudgetsAreImmutableInWhatTheyCover(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	env.Create(t, ofSelector(ns, "selector"), ofTarget(ns, "target"), formerOfTarget(ns, "former"))
	read := func(name string) *pub {
		b := &pub{}
		env.Read(t, client.ObjectKey{Namespace: ns, Name: name}, b)
		return b
	}
	selector, target, swapped := read("selector"), read("target"), read("selector")
	selector.Spec.Selector.MatchLabels["app"] = "other"
	target.Spec.TargetReference.Name = "other"
	swapped.Spec.Selector, swapped.Spec.TargetReference = nil, target.Spec.TargetReference
	former := &formerPub{}
	env.Read(t, client.ObjectKey{Namespace: ns, Name: "former"}, former)
	former.Spec.TargetReference.APIVersion = "apps/v2"
	for name, o := range map[string]client.Object{"a selector": selector, "a target": target, "one for the other": swapped, "a target in v1alpha1": former} {
		t.Run(name, func(t *testing.T) {
			if err := testenv.Refusal(env.Client.Update(t.Context(), o), "immutable"); err != nil {
				t.Error(err)
			}
		})
	}
	number := read("target")
	env.Change(t, number, func() { number.Spec.MaxUnavailable = nil; number.Spec.MinAvailable = new(intstr.FromString("50%")) })
}

func TestUselessBudgetsAreWarnedOf(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	env.Create(t, ofTarget(ns, "first"), ofSelector(ns, "second"))
	number := func(most, least *intstr.IntOrString, size *int32) *pub {
		return ofSelector(ns, "third", func(b *pub) {
			b.Spec.MaxUnavailable, b.Spec.MinAvailable, b.Spec.ProtectTotalReplicas = most, least, size
		})
	}
	cases := map[string]struct {
		object client.Object
		word   string
	}{
		"nothing may go":                       {number(new(intstr.FromInt32(0)), nil, nil), "spec.maxUnavailable: 0 lets no available pod go"},
		"nothing may go, in percent":           {number(new(intstr.FromString("0%")), nil, nil), "spec.maxUnavailable: 0% lets no available pod go"},
		"all must stay":                        {number(nil, new(intstr.FromString("100%")), nil), "spec.minAvailable: 100% lets no available pod go"},
		"all may go":                           {number(new(intstr.FromString("100%")), nil, nil), "spec.maxUnavailable: 100% lets all pods go"},
		"nothing must stay":                    {number(nil, new(intstr.FromInt32(0)), nil), "spec.minAvailable: 0 lets all pods go"},
		"more must stay than there are":        {number(nil, new(intstr.FromInt32(5)), new(int32(4))), "spec.minAvailable: 5 of 4 pods lets no available pod go"},
		"more may go than there are":           {number(new(intstr.FromInt32(4)), nil, new(int32(4))), "spec.maxUnavailable: 4 of 4 pods lets all pods go"},
		"more must stay than the workload has": {number(nil, new(intstr.FromInt32(3)), nil), "spec.minAvailable: 3 of 3 pods lets no available pod go"},
		"a target that has a budget":           {ofTarget(ns, "third", func(b *pub) { b.Spec.TargetReference.Name = "first" }), "the budget first;"},
		"… in another version": {formerOfTarget(ns, "third", func(b *formerPub) {
			b.Spec.TargetReference.Name, b.Spec.TargetReference.APIVersion = "first", "apps/v2"
		}), "the budget first;"},
		"a selector that has a budget":       {ofSelector(ns, "third", func(b *pub) { b.Spec.Selector = ofSelector(ns, "second").Spec.Selector }), "the budget second;"},
		"an annotation that is a field":      {ofTarget(ns, "third", with("kruise.io/pub-protect-operations", "EVICT")), "spec.protectOperations"},
		"a namespace that the guards ignore": {ofTarget("kube-system", "third"), "kube-system"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, heard := env.Listen(t)
			testenv.Eventually(t, func() error { // the first may come before the cache has the other budgets
				tc.object.SetResourceVersion("")
				if err := c.Create(t.Context(), tc.object, client.DryRunAll); err != nil {
					return err
				}
				return heard.Names(tc.word)
			})
		})
	}
	c, heard := env.Listen(t)
	if err := c.Create(t.Context(), ofTarget(ns, "ordinary"), client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if err := heard.Names("spec"); err == nil {
		t.Error("an ordinary budget is warned of")
	}
}

// What was wrong before the controller came hinders no other change.
func TestABudgetThatWasWrongBeforeCanBeChanged(t *testing.T) {
	webhook := validate.PodUnavailableBudget{}
	wrong := formerOfTarget("ns", "wrong", formerWith("kruise.io/pub-protect-operations", "EVERYTHING"), formerWith("limpet.dev/vectors", "x"))
	edit := func(do func(*formerPub)) (admission.Warnings, error) {
		after := wrong.DeepCopy()
		do(after)
		return webhook.ValidateUpdate(testenv.AsFormer(t.Context()), testenv.Hub(t, wrong, &pub{}), testenv.Hub(t, after, &pub{}))
	}
	warnings, err := edit(func(b *formerPub) { b.Spec.MaxUnavailable = new(intstr.FromInt32(2)) })
	if err != nil || len(warnings) != 2 {
		t.Errorf("another field changes: %v, warnings %q, want one of each annotation", err, warnings)
	}
	if warnings, err := edit(func(b *formerPub) { b.Labels = map[string]string{"a": "b"} }); err != nil || warnings != nil {
		t.Errorf("a label changes: %v, warnings %q", err, warnings)
	}
	for _, key := range []string{"limpet.dev/vectors", "kruise.io/pub-protect-operations"} {
		_, err := edit(func(b *formerPub) { b.Annotations[key] = "y" })
		if err := testenv.Refusal(err, key); err != nil {
			t.Error(err)
		}
	}
}
