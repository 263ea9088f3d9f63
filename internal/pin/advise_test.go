package pin_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

const (
	auto     = appsv1beta1.AnnotationAutoGenerate
	prefers  = appsv1beta1.AnnotationPreferredTopology
	requires = appsv1beta1.AnnotationRequiredTopology
	retain   = reservation.RetainAnnotation
	keep     = reservation.KeepAnnotation
	mode     = reservation.ModeAnnotation
	owner    = reservation.OwnerAnnotation
	drain    = policyv1beta1.AnnotationDrainFirst
)

type annotations = map[string]string

func TestAdvise(t *testing.T) {
	set := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}
	deployment := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	asking := annotations{auto: "true", prefers: hostname}
	with := func(more annotations) annotations {
		all := maps.Clone(asking)
		maps.Copy(all, more)
		return all
	}
	cases := map[string]struct {
		in   pin.AdviceInput
		want []string // a word of each advice
	}{
		"nothing is asked for":                   {pin.AdviceInput{Kind: set}, nil},
		"all that is needed":                     {pin.AdviceInput{Kind: set, Annotations: asking, Template: annotations{retain: "10", mode: "required"}}, nil},
		"a place and no address":                 {pin.AdviceInput{Kind: set, Annotations: asking}, nil},
		"out of service first":                   {pin.AdviceInput{Kind: deployment, Template: annotations{drain: "10s"}}, nil},
		"… for too long":                         {pin.AdviceInput{Kind: deployment, Template: annotations{drain: "11m"}}, []string{"write a duration from 1s to 10m"}},
		"… on the workload":                      {pin.AdviceInput{Kind: set, Annotations: annotations{drain: "10s"}}, []string{"set it on the pod template"}},
		"… with a hook of another kind":          {pin.AdviceInput{Kind: set, Template: annotations{policyv1beta1.AnnotationLifecycle: "preNormal: {}"}}, []string{"preNormal"}},
		"annotations of other programs":          {pin.AdviceInput{Kind: set, Annotations: annotations{"kruise.io/specified-delete": "x", "example.com/partition": "1"}}, nil},
		"a template that was copied from a pod":  {pin.AdviceInput{Kind: set, Annotations: asking, Template: annotations{pin.AnnotationNode: "n1"}}, nil},
		"no topology, and no PersistentPodState": {pin.AdviceInput{Kind: set, Template: annotations{retain: "10"}}, []string{"nothing brings the pod back"}},
		"no topology, with a PersistentPodState": {pin.AdviceInput{Kind: set, Template: annotations{retain: "10"}, Targeted: true}, nil},
		"generation by another word than true":   {pin.AdviceInput{Kind: set, Annotations: with(annotations{auto: "yes"})}, []string{`"yes" is not "true"`}},
		"generation that is switched off":        {pin.AdviceInput{Kind: set, Annotations: with(annotations{auto: "false"})}, nil},
		"generation without a topology":          {pin.AdviceInput{Kind: set, Annotations: annotations{auto: "true", prefers: " , "}}, []string{"with at least one key"}},
		"a topology without generation":          {pin.AdviceInput{Kind: set, Annotations: annotations{requires: hostname}}, []string{"does nothing without " + auto}},
		"a release on the workload":              {pin.AdviceInput{Kind: set, Annotations: with(annotations{pin.AnnotationReleaseAfter: "5m"})}, nil},
		"… of which the object is a user's":      {pin.AdviceInput{Kind: set, Annotations: annotations{pin.AnnotationReturnAfter: "5m"}, Targeted: true}, []string{"does nothing without " + auto}},
		"… that is misspelt":                     {pin.AdviceInput{Kind: set, Annotations: with(annotations{"limpet.dev/release-afer": "5m"})}, []string{"knows no annotation limpet.dev/release-afer"}},
		"a duration on the StatefulSet": {
			pin.AdviceInput{Kind: set, Annotations: with(annotations{retain: "10"})}, []string{"move it to spec.template"},
		},
		"a duration on both": {pin.AdviceInput{Kind: set, Annotations: with(annotations{retain: "10"}), Template: annotations{retain: "10"}}, nil},
		"a topology on the template": {
			pin.AdviceInput{Kind: set, Template: asking}, []string{auto + "] does nothing on a pod", prefers + "] does nothing on a pod"},
		},
		"one word":                            {pin.AdviceInput{Kind: set, Annotations: annotations{keep: "10m"}, Template: annotations{mode: "required"}}, nil},
		"one word on the template":            {pin.AdviceInput{Kind: set, Template: annotations{keep: "10m"}}, nil},
		"one word on the namespace":           {pin.AdviceInput{Kind: set, Namespace: annotations{keep: "10m"}, Template: annotations{retain: "10"}}, nil},
		"one word and a topology":             {pin.AdviceInput{Kind: set, Annotations: annotations{keep: "10m", requires: zone}}, nil},
		"one word that says not":              {pin.AdviceInput{Kind: set, Annotations: annotations{keep: "0"}, Template: annotations{retain: "10"}}, []string{"nothing brings the pod back"}},
		"minutes without a unit":              {pin.AdviceInput{Kind: set, Annotations: annotations{keep: "10"}}, nil},
		"no duration":                         {pin.AdviceInput{Kind: set, Annotations: annotations{keep: "ten"}}, []string{`"ten" is neither a duration nor a number of minutes`}},
		"… on the template":                   {pin.AdviceInput{Kind: set, Template: annotations{keep: "ten"}}, []string{`remedy: a value such as "10m"`}},
		"one word on a Deployment":            {pin.AdviceInput{Kind: deployment, Annotations: annotations{keep: "10m"}}, []string{keep + " does nothing on a Deployment"}},
		"a Deployment in a namespace of that": {pin.AdviceInput{Kind: deployment, Namespace: annotations{keep: "10m"}}, nil},
		"required without a duration":         {pin.AdviceInput{Kind: set, Template: annotations{mode: "required"}}, []string{"does nothing without a duration"}},
		"preferred without a duration":        {pin.AdviceInput{Kind: set, Template: annotations{mode: "preferred"}}, nil},
		"a duration that is none":             {pin.AdviceInput{Kind: set, Annotations: asking, Template: annotations{retain: "soon"}}, []string{"neither a duration nor"}},
		"misspelt names": {
			pin.AdviceInput{
				Kind:        set,
				Annotations: with(annotations{"krusie.io/preferred-persistent-topology": hostname, "limpet.dev/auto-generate-persistent-pod-state": "true"}),
				Template:    annotations{"io.kubernetes.cri/reserved-ip-duraton": "10", "limpet.dev/retenion": "required", "example.com/colour": "red"},
			},
			[]string{
				"knows no annotation krusie.io/preferred-persistent-topology", "knows no annotation limpet.dev/auto-generate-persistent-pod-state",
				"knows no annotation io.kubernetes.cri/reserved-ip-duraton", "knows no annotation limpet.dev/retenion",
			},
		},
		"the right name with another prefix": {
			pin.AdviceInput{Kind: set, Annotations: asking, Template: annotations{"limpet.dev/reserved-ip-duration": "10", "cni.io/reserved-ip-duration": "10"}},
			[]string{"knows no annotation cni.io/reserved-ip-duration", "knows no annotation limpet.dev/reserved-ip-duration"},
		},
		"a Deployment that asks for its addresses": {
			pin.AdviceInput{Kind: deployment, Template: annotations{retain: "10", mode: "required"}}, []string{"never come back under their names"},
		},
		"a Deployment with an owner":           {pin.AdviceInput{Kind: deployment, Template: annotations{keep: "10m", owner: "db"}}, nil},
		"an owner on the Deployment":           {pin.AdviceInput{Kind: deployment, Annotations: annotations{owner: "db"}}, []string{owner + " does nothing on a Deployment"}},
		"an owner that is no name":             {pin.AdviceInput{Kind: deployment, Template: annotations{keep: "10m", owner: "D B"}}, []string{`"D B" is no name`}},
		"an owner without a duration":          {pin.AdviceInput{Kind: deployment, Template: annotations{owner: "db"}}, []string{"does nothing without a duration"}},
		"an owner on a StatefulSet":            {pin.AdviceInput{Kind: set, Annotations: asking, Template: annotations{retain: "10", owner: "db"}}, []string{"come back under their names"}},
		"a Deployment that asks for a place":   {pin.AdviceInput{Kind: deployment, Annotations: asking}, []string{"never come back under their names"}},
		"a Deployment with a misspelt request": {pin.AdviceInput{Kind: deployment, Template: annotations{"limpet.dev/retenton": "x"}}, []string{"knows no annotation limpet.dev/retenton"}},
		"a Deployment that is scaled in evenly": {
			pin.AdviceInput{Kind: deployment, Annotations: annotations{appsv1beta1.AnnotationScaleIn: "balanced"}}, nil,
		},
		"a key that no node has": {
			pin.AdviceInput{Kind: set, Annotations: annotations{auto: "true", requires: "example.com/rack"}, Missing: []string{"example.com/rack"}},
			[]string{"no node has the label example.com/rack: no place"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.in.Returns, tc.in.MaxReservation = tc.in.Kind == set, time.Hour
			got := pin.Advise(tc.in)
			same := len(got) == len(tc.want)
			for i := range min(len(got), len(tc.want)) {
				same = same && strings.Contains(got[i], tc.want[i])
			}
			if !same {
				t.Errorf("advice %q, want %q", got, tc.want)
			}
		})
	}
}

// A user can write thousands of annotations onto an object. The advice stays short.
func TestAdviceIsBounded(t *testing.T) {
	many := annotations{}
	for i := range 5000 {
		many[fmt.Sprintf("limpet.dev/retentiom-%d%s", i, strings.Repeat("x", 50))] = "x"
	}
	many[auto] = strings.Repeat("é", 100_000)
	kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}
	got := pin.Advise(pin.AdviceInput{Kind: kind, Returns: true, Annotations: many, Template: many})
	if length := len(strings.Join(got, "")); len(got) > 9 || length > 4096 {
		t.Errorf("%d mistakes in %d bytes are told", len(got), length)
	}
}

// What the sources of Limpet name is not told to be unknown.
func TestNamesOfLimpetAreKnown(t *testing.T) {
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`= +"(limpet\.dev/[a-z0-9-]+)"`)
	found := 0
	for _, dir := range []string{"pkg", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range name.FindAllStringSubmatch(string(text), -1) {
				found++
				if pin.Unknown(m[1]) {
					t.Errorf("%s: %s counts as unknown", path, m[1])
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 25 {
		t.Errorf("found %d names: the test tests little", found)
	}
}

// The API server sends the workloads with annotations that may be ours, and no others.
func TestMatchConditionsSayWhatMayMeanLimpet(t *testing.T) {
	want := append([]string{"limpet", "kruise", "io.kubernetes.cri/"}, pin.Stems...)
	for _, w := range testenv.ReadWebhooks(t).Validating.Webhooks {
		for _, c := range w.MatchConditions {
			if c.Name != "may-mean-limpet" {
				continue
			}
			var parts []string
			for _, m := range regexp.MustCompile(`a\.contains\('([^']+)'\)`).FindAllStringSubmatch(c.Expression, -1) {
				parts = append(parts, m[1])
			}
			if !slices.Equal(parts, want) {
				t.Errorf("match condition looks for %q, want %q", parts, want)
			}
			return
		}
	}
	t.Error("no webhook has the match condition may-mean-limpet")
}
