package testenv

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// runbook is the page that explains metrics and alerts.
const runbook = "docs/operate/operations.md"

// MetricsInRunbook fails a test for each metric that the runbook does not name.
func MetricsInRunbook(t *testing.T, metrics map[string][]string) {
	t.Helper()
	text := repositoryFile(t, runbook)
	for name := range metrics {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s does not name the metric %s", runbook, name)
		}
	}
}

// AlertsNameMetrics fails a test if an alert of a file reads a metric that does not exist, or
// names a section that the runbook lacks. The file must have at least so many alerts.
func AlertsNameMetrics(t *testing.T, file string, metrics map[string][]string, atLeast int) {
	t.Helper()
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
	if err := yaml.Unmarshal([]byte(repositoryFile(t, file)), &rule); err != nil {
		t.Fatal(err)
	}
	sections, found := strings.ToLower(repositoryFile(t, runbook)), 0
	for _, g := range rule.Spec.Groups {
		for _, r := range g.Rules {
			found++
			for _, name := range regexp.MustCompile(`limpet_\w+`).FindAllString(r.Expr, -1) {
				if _, ok := metrics[name]; !ok {
					t.Errorf("%s: there is no metric %s", r.Alert, name)
				}
			}
			_, section, _ := strings.Cut(r.Annotations["runbook"], "operations.md#")
			if !strings.Contains(sections, "\n## "+strings.ReplaceAll(section, "-", " ")+"\n") {
				t.Errorf("%s: %s has no section %q", r.Alert, runbook, section)
			}
		}
	}
	if found < atLeast {
		t.Errorf("%s: found %d alerts, want %d at least", file, found, atLeast)
	}
}

func repositoryFile(t *testing.T, path string) string {
	t.Helper()
	root, err := Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
