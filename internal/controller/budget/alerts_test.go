package budget_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	controller "github.com/limpet-io/limpet/internal/controller/budget"
	"github.com/limpet-io/limpet/internal/disruption"
	"github.com/limpet-io/limpet/internal/testenv"
)

// Each metric is in the runbook. Each alert reads metrics that exist, and names a section.
func TestAlertsAndTheRunbookNameTheMetrics(t *testing.T) {
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	collectors := &testenv.Collectors{}
	controller.NewMetrics(collectors, clock.RealClock{})
	disruption.NewMetrics(collectors)
	metrics, runbook := collectors.Labels(), read("docs/operate/operations.md")
	for name := range metrics {
		if !strings.Contains(runbook, "`"+name+"`") {
			t.Errorf("docs/operate/operations.md does not name the metric %s", name)
		}
	}
	var rule struct {
		Spec struct {
			Groups []struct {
				Rules []struct {
					Alert, Expr string
					Annotations map[string]string
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read("deploy/alerts/budgets.yaml")), &rule); err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, g := range rule.Spec.Groups {
		for _, r := range g.Rules {
			found++
			for _, name := range regexp.MustCompile(`limpet_\w+`).FindAllString(r.Expr, -1) {
				if _, ok := metrics[name]; !ok {
					t.Errorf("%s: there is no metric %s", r.Alert, name)
				}
			}
			_, section, _ := strings.Cut(r.Annotations["runbook"], "operations.md#")
			if !strings.Contains(strings.ToLower(runbook), "\n## "+strings.ReplaceAll(section, "-", " ")+"\n") {
				t.Errorf("%s: docs/operate/operations.md has no section %q", r.Alert, section)
			}
		}
	}
	if found < 3 {
		t.Errorf("found %d alerts: the test tests little", found)
	}
}
