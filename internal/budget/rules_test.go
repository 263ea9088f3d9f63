package budget_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/budget"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

func TestRulesOf(t *testing.T) {
	rules := func(change func(*budget.Rules)) budget.Rules {
		r := budget.Rules{
			FailurePolicy: budget.Open,
			Operations: []policyv1beta1.Operation{
				policyv1beta1.OperationDelete, policyv1beta1.OperationUpdate,
				policyv1beta1.OperationEvict, policyv1beta1.OperationResize,
			},
		}
		change(&r)
		return r
	}
	cases := map[string]struct {
		annotations []string
		want        budget.Rules
		problem     []string // parts of the error
	}{
		"no annotation": {nil, rules(func(*budget.Rules) {}), nil},
		"all of them": {
			[]string{
				policyv1beta1.AnnotationVectors, "preemption=Check, scale-in=Allow,",
				policyv1beta1.AnnotationFailurePolicy, "Closed",
				policyv1beta1.AnnotationKeepPlace, "true",
				policyv1beta1.AnnotationStableSeconds, "30",
				policyv1beta1.AnnotationIgnoreScale, "true",
			},
			rules(func(r *budget.Rules) {
				r.Vectors = map[budget.Vector]budget.Policy{budget.Preemption: budget.Check, budget.ScaleIn: budget.Allow}
				r.FailurePolicy, r.KeepPlace, r.Stable, r.IgnoreScale = budget.Closed, true, 30*time.Second, true
			}), nil,
		},
		"a pair that says the default": {
			[]string{policyv1beta1.AnnotationVectors, "evict=Check"}, rules(func(*budget.Rules) {}), nil,
		},
		"an unknown vector beside a known one": {
			[]string{policyv1beta1.AnnotationVectors, "evct=Allow,delete=Allow"},
			rules(func(r *budget.Rules) { r.Vectors = map[budget.Vector]budget.Policy{budget.Delete: budget.Allow} }),
			[]string{"limpet.dev/vectors", "evct", "scale-in"},
		},
		"a vector without a policy": {
			[]string{policyv1beta1.AnnotationVectors, "evict"},
			rules(func(*budget.Rules) {}),
			[]string{"limpet.dev/vectors", "evict=Check or evict=Allow"},
		},
		"a policy without a vector": {
			[]string{policyv1beta1.AnnotationVectors, "=Allow"}, rules(func(*budget.Rules) {}), []string{"limpet.dev/vectors", "names no vector"},
		},
		"a vector twice": {
			[]string{policyv1beta1.AnnotationVectors, "evict=Allow,evict=Check"},
			rules(func(r *budget.Rules) { r.Vectors = map[budget.Vector]budget.Policy{budget.Evict: budget.Allow} }),
			[]string{"limpet.dev/vectors", "write it once"},
		},
		"a vector that cannot be refused": {
			[]string{policyv1beta1.AnnotationVectors, "pod-gc=Check"},
			rules(func(*budget.Rules) {}),
			[]string{"limpet.dev/vectors", "remove the pair"},
		},
		"a list without an end": {
			[]string{policyv1beta1.AnnotationVectors, strings.Repeat("evict=Allow,", 100)},
			rules(func(*budget.Rules) {}),
			[]string{"limpet.dev/vectors", "at most 1024"},
		},
		"a failure policy of Kubernetes": {
			[]string{policyv1beta1.AnnotationFailurePolicy, "Fail"},
			rules(func(*budget.Rules) {}),
			[]string{"limpet.dev/failure-policy", "Open or Closed"},
		},
		"a stable time with a unit": {
			[]string{policyv1beta1.AnnotationStableSeconds, "30s"},
			rules(func(*budget.Rules) {}),
			[]string{"limpet.dev/stable-seconds", "from 0 to 3600"},
		},
		"the longest stable time": {
			[]string{policyv1beta1.AnnotationStableSeconds, "3600"}, rules(func(r *budget.Rules) { r.Stable = time.Hour }), nil,
		},
		"a longer one": {
			[]string{policyv1beta1.AnnotationStableSeconds, "3601"}, rules(func(*budget.Rules) {}), []string{"from 0 to 3600"},
		},
		"a negative one": {
			[]string{policyv1beta1.AnnotationStableSeconds, "-1"}, rules(func(*budget.Rules) {}), []string{"from 0 to 3600"},
		},
		"keep-place that is not a truth": {
			[]string{policyv1beta1.AnnotationKeepPlace, "yes"},
			rules(func(*budget.Rules) {}),
			[]string{"limpet.dev/keep-place", "true or false"},
		},
		"ignore-scale that is not a truth": {
			[]string{policyv1beta1.AnnotationIgnoreScale, ""},
			rules(func(*budget.Rules) {}),
			[]string{"pub.kruise.io/disable-fetch-replicas-from-workload", "true or false"},
		},
		"several errors": {
			[]string{policyv1beta1.AnnotationKeepPlace, "yes", policyv1beta1.AnnotationStableSeconds, "x"},
			rules(func(*budget.Rules) {}),
			[]string{"limpet.dev/keep-place", "limpet.dev/stable-seconds"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := budget.RulesOf(annotated(tc.annotations...))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("rules (-want +got):\n%s", diff)
			}
			if (err != nil) != (tc.problem != nil) {
				t.Fatalf("error %v, want one: %v", err, tc.problem != nil)
			}
			for _, part := range tc.problem {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}

func TestOperations(t *testing.T) {
	cases := map[string]struct {
		listed []policyv1beta1.Operation
		vector budget.Vector
		judged bool
	}{
		"the default protects from resize": {nil, budget.Resize, true},
		"and from an update":               {nil, budget.Update, true},
		"and from leaving":                 {nil, budget.Leave, true},
		"UPDATE alone does not mean RESIZE": {
			[]policyv1beta1.Operation{policyv1beta1.OperationUpdate}, budget.Resize, false,
		},
		"RESIZE alone":           {[]policyv1beta1.Operation{policyv1beta1.OperationResize}, budget.Resize, true},
		"RESIZE is no UPDATE":    {[]policyv1beta1.Operation{policyv1beta1.OperationResize}, budget.Update, false},
		"DELETE is not EVICT":    {[]policyv1beta1.Operation{policyv1beta1.OperationDelete}, budget.Evict, false},
		"DELETE covers scale-in": {[]policyv1beta1.Operation{policyv1beta1.OperationDelete}, budget.ScaleIn, true},
		"EVICT is not DELETE":    {[]policyv1beta1.Operation{policyv1beta1.OperationEvict}, budget.Delete, false},
		"UPDATE covers leaving":  {[]policyv1beta1.Operation{policyv1beta1.OperationUpdate}, budget.Leave, true},
		"DELETE covers Limpet":   {[]policyv1beta1.Operation{policyv1beta1.OperationDelete}, budget.Limpet, true},
		"EVICT opens leaving":    {[]policyv1beta1.Operation{policyv1beta1.OperationEvict}, budget.Leave, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pub := annotated()
			pub.Spec.ProtectOperations = tc.listed
			pub.Spec.MaxUnavailable = limit("0")
			b, err := budget.Of(pub)
			if err != nil {
				t.Fatal(err)
			}
			b.Expected, b.Pods, b.Leaves = 3, pods(3), true
			in := evict(b.Pods[0], book(), b)
			in.Vector = tc.vector
			if tc.vector != budget.Leave {
				in.Budgets[0].Leaves = false
			}
			if got := budget.Plan(in).Verdict == budget.Refused; got != tc.judged {
				t.Errorf("refused: %v, want %v", got, tc.judged)
			}
		})
	}
}

func FuzzRulesOf(f *testing.F) {
	f.Add("evict=Allow,scale-in=Check", "Closed", "60", "true")
	f.Add("=,==,\x00=Allow", "open", "99999999999999999999", "T")
	f.Fuzz(func(t *testing.T, vectors, failure, stable, truth string) {
		rules, err := budget.RulesOf(annotated(
			policyv1beta1.AnnotationVectors, vectors, policyv1beta1.AnnotationFailurePolicy, failure,
			policyv1beta1.AnnotationStableSeconds, stable, policyv1beta1.AnnotationKeepPlace, truth,
		))
		if rules.Stable < 0 || rules.Stable > budget.MostStable {
			t.Errorf("stable time %v", rules.Stable)
		}
		if !slices.Contains([]budget.FailurePolicy{budget.Open, budget.Closed}, rules.FailurePolicy) {
			t.Errorf("failure policy %q", rules.FailurePolicy)
		}
		for v, p := range rules.Vectors {
			if p != budget.Check && p != budget.Allow || p == budget.Check && (v == budget.PodGC || v == budget.Lost) || v == budget.None {
				t.Errorf("%q=%q", v, p)
			}
		}
		if err != nil && strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' && r != '\n' }) {
			t.Errorf("error with control characters: %q", err)
		}
	})
}
