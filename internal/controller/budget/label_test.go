package budget_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controller "github.com/limpet-io/limpet/internal/controller/budget"
	"github.com/limpet-io/limpet/internal/testenv"
)

func TestLabel(t *testing.T) {
	now := noon.Format(time.RFC3339)
	ago := func(d time.Duration) string { return noon.Add(-d).Format(time.RFC3339) }
	type state struct {
		label, idle string
		change      bool
		again       time.Duration
	}
	const wait = controller.IdleTime + time.Second
	cases := map[string]struct {
		label, idle, wanted string
		want                state
	}{
		"nothing is there, nothing is wanted":     {"", "", "", state{}},
		"a label is missing":                      {"", "", "open", state{"open", "", true, 0}},
		"the label is right":                      {"open", "", "open", state{"open", "", false, 0}},
		"a stronger label is wanted":              {"open", "", "closed", state{"closed", "", true, 0}},
		"another word is no label":                {"maybe", "", "open", state{"open", "", true, 0}},
		"a weaker label is wanted from now on":    {"closed", "", "open", state{"closed", now, true, wait}},
		"… and was a moment ago":                  {"closed", ago(10 * time.Second), "open", state{"closed", ago(10 * time.Second), false, wait - 10*time.Second}},
		"… and was for long enough":               {"closed", ago(time.Minute), "open", state{"open", "", true, 0}},
		"no label is wanted from now on":          {"open", "", "", state{"open", now, true, wait}},
		"… and was not for long enough":           {"open", ago(59 * time.Second), "", state{"open", ago(59 * time.Second), false, 2 * time.Second}},
		"… and was for long enough, so remove it": {"open", ago(time.Hour), "", state{"", "", true, 0}},
		"the label is wanted again":               {"open", ago(59 * time.Second), "open", state{"open", "", true, 0}},
		"a time that is none begins the wait":     {"open", "long ago", "", state{"open", now, true, wait}},
		"a time to come begins the wait":          {"open", ago(-time.Hour), "", state{"open", now, true, wait}},
		"an annotation without a label":           {"", ago(time.Hour), "", state{"", "", true, 0}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			label, idle, change, again := controller.Label(noon, tc.label, tc.idle, tc.wanted)
			if got := (state{label, idle, change, again}); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
		})
	}
}

func pdb(name string, labels ...string) policyv1.PodDisruptionBudget {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := 0; i < len(labels); i += 2 {
		selector.MatchLabels[labels[i]] = labels[i+1]
	}
	return policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: selector}}
}

func TestPairsOf(t *testing.T) {
	pod := func(labels ...string) corev1.Pod {
		p := testenv.APod("web").Ready().Pod
		p.Labels = pdb("", labels...).Spec.Selector.MatchLabels
		return *p
	}
	over := pod("app", "web", "tier", "front")
	over.Status.Phase = corev1.PodSucceeded
	wrong := pdb("wrong")
	wrong.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Perhaps"}}
	none := pdb("none")
	none.Spec.Selector = nil
	all := []policyv1.PodDisruptionBudget{pdb("app", "app", "web"), pdb("tier", "tier", "front"), pdb("other", "app", "db"), wrong, none}
	cases := map[string]struct {
		pods []corev1.Pod
		want []string
	}{
		"no pods":                         {nil, nil},
		"one budget for each pod":         {[]corev1.Pod{pod("app", "web"), pod("tier", "front"), pod("app", "db")}, nil},
		"two budgets for one pod":         {[]corev1.Pod{pod("app", "web"), pod("app", "web", "tier", "front")}, []string{"app", "tier"}},
		"a pod that has ended needs none": {[]corev1.Pod{over}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, controller.PairsOf(all, tc.pods)); diff != "" {
				t.Errorf("budgets (-want +got):\n%s", diff)
			}
		})
	}
}
