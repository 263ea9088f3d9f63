package budget_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/workload"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

func chain(targets ...workload.Target) []workload.Owner {
	var out []workload.Owner
	for _, target := range targets {
		out = append(out, workload.Owner{Target: target, UID: "any"})
	}
	return out
}

func target(apiVersion, kind, name string) policyv1beta1.PodUnavailableBudgetSpec {
	return policyv1beta1.PodUnavailableBudgetSpec{
		TargetReference: &policyv1beta1.TargetReference{APIVersion: apiVersion, Kind: kind, Name: name},
	}
}

func selecting(label, value string) policyv1beta1.PodUnavailableBudgetSpec {
	return policyv1beta1.PodUnavailableBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{label: value}}}
}

func TestCovers(t *testing.T) {
	web := map[string]string{"app": "web"}
	ofDeployment := chain(workload.Target{Group: "apps", Kind: "ReplicaSet", Name: "web-7d4"}, workload.Target{Group: "apps", Kind: "Deployment", Name: "web"})
	ofRollout := chain(workload.Target{Group: "apps", Kind: "ReplicaSet", Name: "web-7d4"}, workload.Target{Group: "argoproj.io", Kind: "Rollout", Name: "web"})
	cases := map[string]struct {
		spec   policyv1beta1.PodUnavailableBudgetSpec
		labels map[string]string
		chain  []workload.Owner
		want   bool
		fails  bool
	}{
		"the selector matches":                   {spec: selecting("app", "web"), labels: web, want: true},
		"the selector does not match":            {spec: selecting("app", "db"), labels: web},
		"a pod without labels":                   {spec: selecting("app", "web")},
		"a selector takes no account of owners":  {spec: selecting("app", "db"), labels: web, chain: ofDeployment},
		"the target is the Deployment":           {spec: target("apps/v1", "Deployment", "web"), chain: ofDeployment, want: true},
		"another version of the group":           {spec: target("apps/v1beta9", "Deployment", "web"), chain: ofDeployment, want: true},
		"the target is the ReplicaSet":           {spec: target("apps/v1", "ReplicaSet", "web-7d4"), chain: ofDeployment, want: true},
		"the target is a Rollout":                {spec: target("argoproj.io/v1alpha1", "Rollout", "web"), chain: ofRollout, want: true},
		"the kind in another group":              {spec: target("apps.kruise.io/v1alpha1", "Deployment", "web"), chain: ofDeployment},
		"another kind of the name":               {spec: target("apps/v1", "StatefulSet", "web"), chain: ofDeployment},
		"another name":                           {spec: target("apps/v1", "Deployment", "web2"), chain: ofDeployment},
		"a target and a pod without owner":       {spec: target("apps/v1", "Deployment", "web"), labels: web},
		"an empty selector":                      {spec: policyv1beta1.PodUnavailableBudgetSpec{Selector: &metav1.LabelSelector{}}, labels: web, fails: true},
		"a selector that is no selector":         {spec: selecting("a b", "web"), labels: web, fails: true},
		"neither":                                {labels: web, fails: true},
		"a target without a name":                {spec: target("apps/v1", "Deployment", ""), chain: chain(workload.Target{Group: "apps", Kind: "Deployment"}), fails: true},
		"a target whose apiVersion is malformed": {spec: target("a/b/c", "Deployment", "web"), chain: ofDeployment},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pub := annotated()
			pub.Spec = tc.spec
			matcher, err := budget.MatcherOf(pub)
			if got := err == nil && matcher.Covers(&metav1.ObjectMeta{Labels: tc.labels}, tc.chain); got != tc.want || (err != nil) != tc.fails {
				t.Errorf("covers: %v, error %v; want %v, an error: %v", got, err, tc.want, tc.fails)
			}
		})
	}
}

func TestCoversRefusesAnEmptySelectorOfIgnoredPods(t *testing.T) {
	pub := annotated()
	pub.Spec = selecting("app", "web")
	pub.Spec.IgnoredPodSelector = &metav1.LabelSelector{}
	if _, err := budget.MatcherOf(pub); err == nil {
		t.Error("an empty selector of ignored pods would ignore every pod, and was read")
	}
}

func TestExempts(t *testing.T) {
	cases := map[string]struct {
		labels, annotations map[string]string
		want                bool
	}{
		"an ordinary pod":                            {},
		"an ignored pod":                             {labels: map[string]string{"job": "batch"}, want: true},
		"no-protect":                                 {annotations: map[string]string{policyv1beta1.AnnotationNoProtect: "true"}, want: true},
		"no-protect as OpenKruise":                   {annotations: map[string]string{policyv1beta1.AnnotationNoProtect: "1"}, want: true},
		"no-protect is false":                        {annotations: map[string]string{policyv1beta1.AnnotationNoProtect: "false"}},
		"no-protect is no truth":                     {annotations: map[string]string{policyv1beta1.AnnotationNoProtect: "yes"}},
		"no-protect as a label":                      {labels: map[string]string{policyv1beta1.AnnotationNoProtect: "true"}},
		"OpenKruise's related-pub of another budget": {annotations: map[string]string{"kruise.io/related-pub": "other"}},
	}
	pub := annotated()
	pub.Spec = selecting("app", "web")
	pub.Spec.IgnoredPodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"job": "batch"}}
	m, err := budget.MatcherOf(pub)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := m.Exempts(&metav1.ObjectMeta{Labels: tc.labels, Annotations: tc.annotations}); got != tc.want {
				t.Errorf("exempts: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestLeaves(t *testing.T) {
	web, other := map[string]string{"app": "web"}, map[string]string{"app": "other"}
	noProtect := map[string]string{policyv1beta1.AnnotationNoProtect: "true"}
	db := chain(workload.Target{Group: "apps", Kind: "StatefulSet", Name: "db"})
	cases := map[string]struct {
		spec          policyv1beta1.PodUnavailableBudgetSpec
		before, after metav1.ObjectMeta
		from, to      []workload.Owner
		want          bool
	}{
		"a label of the selector goes":     {spec: selecting("app", "web"), before: metav1.ObjectMeta{Labels: web}, after: metav1.ObjectMeta{}, want: true},
		"a label of the selector changes":  {spec: selecting("app", "web"), before: metav1.ObjectMeta{Labels: web}, after: metav1.ObjectMeta{Labels: other}, want: true},
		"another label comes":              {spec: selecting("app", "web"), before: metav1.ObjectMeta{Labels: web}, after: metav1.ObjectMeta{Labels: map[string]string{"app": "web", "x": "y"}}},
		"a pod comes into the budget":      {spec: selecting("app", "web"), before: metav1.ObjectMeta{Labels: other}, after: metav1.ObjectMeta{Labels: web}},
		"the owner reference goes":         {spec: target("apps/v1", "StatefulSet", "db"), from: db, want: true},
		"the owner reference stays":        {spec: target("apps/v1", "StatefulSet", "db"), from: db, to: db},
		"no-protect comes":                 {spec: selecting("app", "web"), before: metav1.ObjectMeta{Labels: web}, after: metav1.ObjectMeta{Labels: web, Annotations: noProtect}, want: true},
		"no-protect was there":             {spec: selecting("app", "web"), before: metav1.ObjectMeta{Labels: web, Annotations: noProtect}, after: metav1.ObjectMeta{Annotations: noProtect}},
		"related-pub goes, and is no sign": {spec: selecting("app", "web"), before: metav1.ObjectMeta{Labels: web, Annotations: map[string]string{"kruise.io/related-pub": "web"}}, after: metav1.ObjectMeta{Labels: web}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pub := annotated()
			pub.Spec = tc.spec
			m, err := budget.MatcherOf(pub)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Leaves(&tc.before, &tc.after, tc.from, tc.to); got != tc.want {
				t.Errorf("leaves: %v, want %v", got, tc.want)
			}
		})
	}
}
