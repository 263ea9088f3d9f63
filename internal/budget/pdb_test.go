package budget_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// native is a PodDisruptionBudget for app=web that lets one pod go.
func native(name string, change ...func(*policyv1.PodDisruptionBudget)) policyv1.PodDisruptionBudget {
	p := policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 2},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: limit("1"), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: 2, DisruptionsAllowed: 1, CurrentHealthy: 3, DesiredHealthy: 2, ExpectedPods: 3,
		},
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

func TestPDBsOf(t *testing.T) {
	selecting := func(s *metav1.LabelSelector) func(*policyv1.PodDisruptionBudget) {
		return func(p *policyv1.PodDisruptionBudget) { p.Spec.Selector = s }
	}
	list := []policyv1.PodDisruptionBudget{
		native("matches"),
		native("other", selecting(&metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}})),
		native("all", selecting(&metav1.LabelSelector{})),
		native("none", selecting(nil)),
		native("invalid", selecting(&metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}})),
	}
	var got []string
	for _, p := range budget.PDBsOf(list, map[string]string{"app": "web"}) {
		got = append(got, p.Name)
	}
	if diff := cmp.Diff([]string{"matches", "all"}, got); diff != "" {
		t.Errorf("budgets of the pod (-want +got):\n%s", diff)
	}
}

// The order of the checks is that of k8s.io/kubernetes/pkg/registry/core/pod/storage/eviction.go.
func TestPlanAsksNativeBudgetsFirst(t *testing.T) {
	exhausted := func(p *policyv1.PodDisruptionBudget) { p.Status.DisruptionsAllowed = 0 }
	always := func(p *policyv1.PodDisruptionBudget) { p.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow) }
	ifHealthy := func(p *policyv1.PodDisruptionBudget) {
		p.Spec.UnhealthyPodEvictionPolicy = new(policyv1.IfHealthyBudget)
	}
	short := func(p *policyv1.PodDisruptionBudget) { p.Status.CurrentHealthy, p.Status.DisruptionsAllowed = 1, 0 }
	nothing := func(p *policyv1.PodDisruptionBudget) {
		p.Status.CurrentHealthy, p.Status.DesiredHealthy, p.Status.DisruptionsAllowed = 0, 0, 0
	}
	pending := unready(0)
	pending.Pending = true
	labelled := unready(0)
	labelled.Ready = true
	cases := map[string]struct {
		pdbs   []policyv1.PodDisruptionBudget
		pod    budget.Pod
		reason budget.Reason
	}{
		"none":                                   {nil, serving(0), budget.ReasonUnits},
		"one with a unit":                        {[]policyv1.PodDisruptionBudget{native("a")}, serving(0), budget.ReasonUnits},
		"one without":                            {[]policyv1.PodDisruptionBudget{native("a", exhausted)}, serving(0), budget.ReasonPDB},
		"one with a negative number":             {[]policyv1.PodDisruptionBudget{native("a", func(p *policyv1.PodDisruptionBudget) { p.Status.DisruptionsAllowed = -1 })}, serving(0), budget.ReasonPDB},
		"one that was changed":                   {[]policyv1.PodDisruptionBudget{native("a", func(p *policyv1.PodDisruptionBudget) { p.Generation = 3 })}, serving(0), budget.ReasonPDB},
		"too many disrupted pods":                {[]policyv1.PodDisruptionBudget{native("a", disrupted(2001))}, serving(0), budget.ReasonPDB},
		"just as many":                           {[]policyv1.PodDisruptionBudget{native("a", disrupted(2000))}, serving(0), budget.ReasonUnits},
		"an unhealthy pod, always":               {[]policyv1.PodDisruptionBudget{native("a", short, always)}, unready(0), budget.ReasonNotAvailable},
		"an unhealthy pod of a healthy budget":   {[]policyv1.PodDisruptionBudget{native("a", exhausted, ifHealthy)}, unready(0), budget.ReasonNotAvailable},
		"an unhealthy pod, nothing said":         {[]policyv1.PodDisruptionBudget{native("a", exhausted)}, unready(0), budget.ReasonNotAvailable},
		"an unhealthy pod of a short budget":     {[]policyv1.PodDisruptionBudget{native("a", short)}, unready(0), budget.ReasonPDB},
		"an unhealthy pod of a budget of no pod": {[]policyv1.PodDisruptionBudget{native("a", nothing)}, unready(0), budget.ReasonPDB},
		"a pending pod":                          {[]policyv1.PodDisruptionBudget{native("a", short), native("b")}, pending, budget.ReasonNotAvailable},
		"a labelled pod is healthy for it":       {[]policyv1.PodDisruptionBudget{native("a", exhausted)}, labelled, budget.ReasonPDB},
		"two":                                    {[]policyv1.PodDisruptionBudget{native("a"), native("b")}, serving(0), budget.ReasonManyPDBs},
		"two, for an unhealthy pod":              {[]policyv1.PodDisruptionBudget{native("a", always), native("b", always)}, unready(0), budget.ReasonManyPDBs},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			others := pods(3)[1:]
			in := evict(tc.pod, book(), most("1", append(others, tc.pod)))
			in.PDBs = budget.PDBsOf(tc.pdbs, map[string]string{"app": "web"})
			if !tc.pod.Serving { // the budget has no unit for a serving pod, and needs none
				in.Budgets = []budget.Budget{most("1", append(others, tc.pod))}
			}
			d := budget.Plan(in)
			if d.Reason != tc.reason {
				t.Fatalf("decision %+v, want the reason %s", d, tc.reason)
			}
			if native := tc.reason == budget.ReasonPDB || tc.reason == budget.ReasonManyPDBs; native != (d.Verdict == budget.Refused) || native && (d.Take || len(d.Blocking) != len(tc.pdbs)) {
				t.Errorf("decision %+v", d)
			}
		})
	}
}

// Evictions that the guard has let go, and the status does not show yet, count.
func TestPlanCountsEvictionsThatANativeBudgetDoesNotShowYet(t *testing.T) {
	for name, tc := range map[string]struct {
		entry  func(*ledger.Entry)
		shown  bool // the status has the other pod as disrupted
		counts bool
		reason budget.Reason
	}{
		"another eviction is on its way": {nil, false, true, budget.ReasonPDB},
		"the status shows it":            {nil, true, true, budget.ReasonUnits},
		"of a pod that is none of its":   {nil, false, false, budget.ReasonUnits},
		"a deletion":                     {func(e *ledger.Entry) { e.Vector = string(budget.Delete) }, false, true, budget.ReasonUnits},
		"an entry that has expired":      {func(e *ledger.Entry) { e.Expires = now }, false, true, budget.ReasonUnits},
		"an entry of the pod itself":     {func(e *ledger.Entry) { e.UID = "u-0" }, false, true, budget.ReasonTaken},
	} {
		t.Run(name, func(t *testing.T) {
			e := book(serving(1)).Entries["u-1"]
			if tc.entry != nil {
				tc.entry(&e)
			}
			in := evict(serving(0), ledger.Book{Entries: map[string]ledger.Entry{e.UID: e}}, most("2", pods(4)))
			in.PDBs = budget.PDBsOf([]policyv1.PodDisruptionBudget{native("a")}, map[string]string{"app": "web"})
			in.PDBs[0].Healthy = map[string]bool{e.UID: tc.counts}
			if tc.shown {
				in.PDBs[0].Disrupted = map[string]metav1.Time{"web-1": {}}
			}
			if d := budget.Plan(in); d.Reason != tc.reason {
				t.Errorf("decision %+v, want the reason %s", d, tc.reason)
			}
		})
	}
}

func disrupted(n int) func(*policyv1.PodDisruptionBudget) {
	return func(p *policyv1.PodDisruptionBudget) {
		p.Status.DisruptedPods = map[string]metav1.Time{}
		for i := range n {
			p.Status.DisruptedPods[fmt.Sprint(i)] = metav1.Now()
		}
	}
}

// A native budget without a pod of ours is judged as well: two of them are answered here.
func TestPlanOfTwoNativeBudgetsAlone(t *testing.T) {
	in := evict(serving(0), book())
	in.PDBs = budget.PDBsOf([]policyv1.PodDisruptionBudget{
		native("zone", func(p *policyv1.PodDisruptionBudget) { p.Status.DisruptionsAllowed = 0 }), native("app"),
	}, map[string]string{"app": "web"})
	d := budget.Plan(in)
	if d.Verdict != budget.Refused || d.Reason != budget.ReasonManyPDBs {
		t.Fatalf("decision %+v", d)
	}
	if diff := cmp.Diff([]string{"app", "zone"}, d.Blocking); diff != "" {
		t.Errorf("blocking (-want +got):\n%s", diff)
	}
	for _, part := range []string{"app (needs 2 healthy pods and has 3)", "zone (needs 2", "2 PodDisruptionBudgets", "PodUnavailableBudget"} {
		if !strings.Contains(d.Message, part) {
			t.Errorf("message %q does not say %q", d.Message, part)
		}
	}
	const offer = `apiVersion: policy.kruise.io/v1beta1
kind: PodUnavailableBudget
metadata:
  name: app
  namespace: shop
spec:
  maxUnavailable: 1
  protectOperations:
  - EVICT
  selector:
    matchLabels:
      app: web
`
	if diff := cmp.Diff(offer, d.Offer); diff != "" {
		t.Errorf("offer (-want +got):\n%s", diff)
	}
}

func TestReplacements(t *testing.T) {
	web := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	of := func(name, max, min string, s *metav1.LabelSelector) budget.PDB {
		p := budget.PDB{Name: name, Selector: s}
		if max != "" {
			p.MaxUnavailable = limit(max)
		}
		if min != "" {
			p.MinAvailable = limit(min)
		}
		return p
	}
	cases := map[string]struct {
		pdbs []budget.PDB
		want []string // name and number
	}{
		"the stricter number":        {[]budget.PDB{of("b", "1", "", web), of("a", "3", "", web)}, []string{"a 1 <nil>"}},
		"the stricter percentage":    {[]budget.PDB{of("a", "20%", "", web), of("b", "50%", "", web)}, []string{"a 20% <nil>"}},
		"the stricter minimum":       {[]budget.PDB{of("a", "", "2", web), of("b", "", "3", web)}, []string{"a <nil> 3"}},
		"a number and a percentage":  {[]budget.PDB{of("a", "1", "", web), of("b", "50%", "", web)}, []string{"a 1 <nil>", "b 50% <nil>"}},
		"a maximum and a minimum":    {[]budget.PDB{of("a", "1", "", web), of("b", "", "2", web)}, []string{"a 1 <nil>", "b <nil> 2"}},
		"different selectors":        {[]budget.PDB{of("a", "1", "", web), of("b", "1", "", &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}})}, []string{"a 1 <nil>", "b 1 <nil>"}},
		"a budget that says nothing": {[]budget.PDB{of("a", "", "", web), of("b", "1", "", nil)}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, b := range budget.Replacements("shop", tc.pdbs) {
				got = append(got, fmt.Sprint(b.Name, " ", b.Spec.MaxUnavailable, " ", b.Spec.MinAvailable))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("replacements (-want +got):\n%s", diff)
			}
		})
	}
}

// The budget of a native one with an empty selector covers every pod, and is valid.
func TestReplacementOfAnEmptySelector(t *testing.T) {
	text := budget.Replacement("shop", []budget.PDB{
		{Name: "all", MinAvailable: limit("50%"), Selector: &metav1.LabelSelector{}},
		{Name: "web", MaxUnavailable: limit("1"), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	})
	documents := strings.Split(text, "---\n")
	if len(documents) != 2 {
		t.Fatalf("%d documents:\n%s", len(documents), text)
	}
	var pub policyv1beta1.PodUnavailableBudget
	if err := yaml.UnmarshalStrict([]byte(documents[0]), &pub); err != nil {
		t.Fatal(err)
	}
	m, err := budget.MatcherOf(&pub)
	if err != nil {
		t.Fatal(err)
	}
	if !m.Covers(&metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, nil) || !m.Covers(&metav1.ObjectMeta{}, nil) {
		t.Errorf("the replacement does not cover all pods:\n%s", text)
	}
}
