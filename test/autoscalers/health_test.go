package autoscalers_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// checks is what the page has for PersistentPodStates.
type checks struct {
	Lua   string `json:"resource.customizations.health.apps.kruise.io_PersistentPodState"`
	Exprs []struct {
		Version string `json:"apiVersion"`
		Kind    string `json:"kind"`
		Current string `json:"current"`
		Failed  string `json:"failed"`
	} `json:"healthCheckExprs"`
}

// TestTheHealthChecks runs the checks of docs/operate/autoscalers-and-gitops.md on each kind that the page names.
func TestTheHealthChecks(t *testing.T) {
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs/operate/autoscalers-and-gitops.md"))
	if err != nil {
		t.Fatal(err)
	}
	var is checks
	for _, block := range regexp.MustCompile(`(?m)(^ {4}.*\n)+`).FindAllString(string(page), -1) {
		if strings.Contains(block, "resource.customizations") || strings.Contains(block, "healthCheckExprs") {
			if err := yaml.UnmarshalStrict([]byte(block), &is); err != nil {
				t.Fatalf("%v in\n%s", err, block)
			}
		}
	}
	if len(is.Exprs) != 1 || is.Exprs[0].Version != appsv1beta1.GroupVersion.String() || is.Exprs[0].Kind != "PersistentPodState" {
		t.Fatalf("the expressions are %+v", is.Exprs)
	}
	for kind, of := range map[string]struct {
		version   schema.GroupVersion
		condition string
		object    any
	}{
		"PersistentPodState":             {appsv1beta1.GroupVersion, appsv1beta1.ConditionRecording, &appsv1beta1.PersistentPodState{}},
		"WorkloadSpread":                 {appsv1beta1.GroupVersion, appsv1beta1.ConditionPlaced, &appsv1beta1.WorkloadSpread{}},
		"PodUnavailableBudget":           {policyv1beta1.GroupVersion, policyv1beta1.ConditionEnforced, &policyv1beta1.PodUnavailableBudget{}},
		"DistributedPodDisruptionBudget": {limpetv1alpha1.GroupVersion, policyv1beta1.ConditionEnforced, &limpetv1alpha1.DistributedPodDisruptionBudget{}},
	} {
		for _, name := range []string{of.version.Group + "_" + kind, of.version.String(), "`" + of.condition + "`"} {
			if !strings.Contains(string(page), name) {
				t.Errorf("%s: the page does not name %s", kind, name)
			}
		}
		its := strings.NewReplacer(`"Recording"`, `"`+of.condition+`"`, "'Recording'", "'"+of.condition+"'").Replace
		status := func(generation int64, value string) string {
			return fmt.Sprintf(`,"status":{"observedGeneration":%[1]d,"conditions":[{"type":"Other","status":"True"},`+
				`{"type":%[2]q,"status":%[3]q,"observedGeneration":%[1]d,"message":"so"}]}`, generation, of.condition, value)
		}
		for name, tc := range map[string]struct{ status, want string }{
			"new":             {"", "Progressing"},
			"healthy":         {status(2, "True"), "Healthy"},
			"degraded":        {status(2, "False"), "Degraded"},
			"not known yet":   {status(2, "Unknown"), "Progressing"},
			"healthy before":  {status(1, "True"), "Progressing"},
			"degraded before": {status(1, "False"), "Progressing"},
		} {
			object := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"generation":2}%s}`, of.version, kind, tc.status)
			if err := yaml.UnmarshalStrict([]byte(object), of.object); err != nil {
				t.Fatal(err)
			}
			if got := argo(t, its(is.Lua), object); got != tc.want {
				t.Errorf("%s, %s: Argo CD says %s, want %s", kind, name, got, tc.want)
			}
			if got := flux(t, its(is.Exprs[0].Current), its(is.Exprs[0].Failed), object); got != tc.want {
				t.Errorf("%s, %s: Flux says %s, want %s", kind, name, got, tc.want)
			}
		}
	}
}

// argo returns the status that Argo CD reads from a script.
func argo(t *testing.T, script, object string) string {
	t.Helper()
	l := lua.NewState()
	defer l.Close()
	table := regexp.MustCompile(`("\w+"):`).ReplaceAllString(strings.NewReplacer("[", "{", "]", "}").Replace(object), "[$1]=")
	if err := l.DoString("obj = " + table + "\n" + script); err != nil {
		t.Fatal(err)
	}
	hs, ok := l.Get(-1).(*lua.LTable)
	if !ok || lua.LVAsString(hs.RawGetString("message")) == "" {
		t.Fatalf("the script returns %v, without a message", l.Get(-1))
	}
	return lua.LVAsString(hs.RawGetString("status"))
}

// flux returns what Flux makes of expressions, in words of Argo CD. Flux waits while the status is of another generation, or lacks a
// field that an expression names.
func flux(t *testing.T, current, failed, object string) string {
	t.Helper()
	o := &unstructured.Unstructured{}
	env, err := cel.NewEnv()
	if err := errors.Join(err, yaml.Unmarshal([]byte(object), o)); err != nil {
		t.Fatal(err)
	}
	if read, ok, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration"); ok && read != o.GetGeneration() {
		return "Progressing"
	}
	for _, is := range []struct{ expr, status string }{{failed, "Degraded"}, {current, "Healthy"}} {
		parsed, issues := env.Parse(is.expr)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		program, err := env.Program(parsed)
		if err != nil {
			t.Fatal(err)
		}
		switch result, _, err := program.Eval(o.Object); {
		case err != nil && o.Object["status"] != nil:
			t.Fatalf("%s: %v", is.expr, err)
		case err == nil && result.Value() == true:
			return is.status
		}
	}
	return "Progressing"
}
