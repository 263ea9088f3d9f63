package budget_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/budget"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

func TestEnforcedOf(t *testing.T) {
	sound := func() budget.Guard {
		return budget.Guard{Label: "open", Wanted: "open", Called: now.Add(-time.Minute), Rules: defaultRules()}
	}
	cases := map[string]struct {
		change func(*budget.Guard)
		status metav1.ConditionStatus
		reason string
		says   string
	}{
		"all is well":          {func(*budget.Guard) {}, metav1.ConditionTrue, budget.ReasonEnforced, "Pods may go while the controller does not answer"},
		"a closed namespace":   {func(g *budget.Guard) { g.Label, g.Wanted = "closed", "closed" }, metav1.ConditionTrue, budget.ReasonEnforced, "No pod of the namespace may go"},
		"never called":         {func(g *budget.Guard) { g.Called = time.Time{} }, metav1.ConditionTrue, budget.ReasonEnforced, ""},
		"no webhook":           {func(g *budget.Guard) { g.Missing = true }, metav1.ConditionFalse, budget.ReasonEnforcedNoWebhook, "deploy/controller"},
		"an old webhook":       {func(g *budget.Guard) { g.Webhook = "no rule for pods/resize" }, metav1.ConditionFalse, budget.ReasonEnforcedOldWebhook, "pods/resize"},
		"no label":             {func(g *budget.Guard) { g.Label = "" }, metav1.ConditionFalse, budget.ReasonEnforcedNoLabel, "limpet.dev/budgets=open"},
		"another label":        {func(g *budget.Guard) { g.Wanted = "closed" }, metav1.ConditionFalse, budget.ReasonEnforcedNoLabel, `has "open"`},
		"a failed test":        {func(g *budget.Guard) { g.Probe = "timed out" }, metav1.ConditionFalse, budget.ReasonEnforcedNotCalled, "timed out"},
		"no test yet":          {func(g *budget.Guard) { g.Unprobed = true }, metav1.ConditionUnknown, budget.ReasonEnforcedNotProbed, ""},
		"a pod went unasked":   {func(g *budget.Guard) { g.Missed = now.Add(-30 * time.Second) }, metav1.ConditionFalse, budget.ReasonEnforcedNotCalled, "30 s ago"},
		"unasked, then called": {func(g *budget.Guard) { g.Missed = now.Add(-2 * time.Minute) }, metav1.ConditionTrue, budget.ReasonEnforced, ""},
		"unasked long ago":     {func(g *budget.Guard) { g.Called, g.Missed = time.Time{}, now.Add(-time.Hour) }, metav1.ConditionTrue, budget.ReasonEnforced, ""},
		"pods of no workload":  {func(g *budget.Guard) { g.Loose = 2 }, metav1.ConditionFalse, budget.ReasonEnforcedBarePods, "2 pods have no workload"},
		"a wrong annotation":   {func(g *budget.Guard) { g.Invalid = errors.New("write Open or Closed") }, metav1.ConditionFalse, budget.ReasonEnforcedOldRules, "Open or Closed"},
		"a wrong selector":     {func(g *budget.Guard) { g.Problem = errors.New("empty") }, metav1.ConditionFalse, budget.ReasonEnforcedNoPods, "covers no pod"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := sound()
			tc.change(&g)
			c := budget.EnforcedOf(g, now)
			if c.Type != policyv1beta1.ConditionEnforced || c.Status != tc.status || c.Reason != tc.reason || !strings.Contains(c.Message, tc.says) {
				t.Errorf("condition %+v, want %s %s %q", c, tc.status, tc.reason, tc.says)
			}
			if c.Message == "" {
				t.Error("no message")
			}
		})
	}
}

func TestDisruptionAllowedOf(t *testing.T) {
	cases := map[string]struct {
		budget budget.Budget
		book   []budget.Pod
		status metav1.ConditionStatus
		reason string
		says   string
	}{
		"units":          {most("2", pods(5)), pods(1), metav1.ConditionTrue, budget.ReasonDisruptionUnits, "1 of 5 pods"},
		"none":           {most("1", pods(3)), pods(1), metav1.ConditionFalse, budget.ReasonDisruptionNone, "web-0 (evict by bob, 1 s ago)"},
		"none ever":      {most("0", pods(3)), nil, metav1.ConditionFalse, budget.ReasonDisruptionNever, "at this size"},
		"scaled to zero": {most("1", nil), nil, metav1.ConditionTrue, budget.ReasonNothingProtected, ""},
		"unknown": {
			with(most("1", pods(3)), func(b *budget.Budget) { b.Unknown = "no scale" }), nil, metav1.ConditionFalse, budget.ReasonDisruptionSizeless, "no scale",
		},
		"unknown and needless": {
			with(least("1", pods(3)), func(b *budget.Budget) { b.Unknown = "no scale" }), nil, metav1.ConditionTrue, budget.ReasonDisruptionUnits, "2 of 3",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := book(tc.book...)
			c := budget.DisruptionAllowedOf(budget.Count(tc.budget, b, now), budget.Explain(tc.budget, b, now))
			if c.Type != policyv1beta1.ConditionDisruptionAllowed || c.Status != tc.status || c.Reason != tc.reason || !strings.Contains(c.Message, tc.says) {
				t.Errorf("condition %+v, want %s %s %q", c, tc.status, tc.reason, tc.says)
			}
		})
	}
}

func TestNamespaceLabel(t *testing.T) {
	open, closed := *annotated(), *annotated(policyv1beta1.AnnotationFailurePolicy, "Closed")
	wrong := *annotated(policyv1beta1.AnnotationFailurePolicy, "closed?")
	cases := map[string]struct {
		budgets []policyv1beta1.PodUnavailableBudget
		overlap bool
		asked   bool
		value   string
		wanted  bool
	}{
		"none":                     {nil, false, false, "asked", false},
		"pods with drain-first":    {nil, false, true, "asked", true},
		"pods with several PDBs":   {nil, true, true, "open", true},
		"one open":                 {[]policyv1beta1.PodUnavailableBudget{open}, false, true, "open", true},
		"one of two closed":        {[]policyv1beta1.PodUnavailableBudget{closed, open}, false, true, "closed", true},
		"closed, beside PDBs":      {[]policyv1beta1.PodUnavailableBudget{open, closed}, true, true, "closed", true},
		"a policy that is no word": {[]policyv1beta1.PodUnavailableBudget{wrong}, false, true, "open", true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if value, wanted := budget.NamespaceLabel(tc.budgets, tc.overlap, tc.asked); value != tc.value || wanted != tc.wanted {
				t.Errorf("%q, %v; want %q, %v", value, wanted, tc.value, tc.wanted)
			}
		})
	}
}
