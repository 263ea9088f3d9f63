package testenv

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"
)

// metricsPage is the page that explains metrics.
const metricsPage = "docs/operate/reference.md"

// alertsPage has a section for each alert.
const alertsPage = "docs/operate/troubles.md"

// histogram is what the series of a histogram have in addition to its name.
var histogram = regexp.MustCompile(`_(bucket|count|sum)$`)

// SeriesOf returns the labels of each series of a metric, in the order of their names, without those that are 0.
func SeriesOf(t *testing.T, from prometheus.Gatherer, metric string) (all []string) {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var values []string
			for _, l := range m.GetLabel() {
				values = append(values, l.GetValue())
			}
			if family.GetName() == metric && m.GetGauge().GetValue() != 0 {
				all = append(all, strings.Join(values, " "))
			}
		}
	}
	return all
}

// MetricsInRunbook fails a test for each metric that the reference does not name.
func MetricsInRunbook(t *testing.T, metrics map[string][]string) {
	t.Helper()
	text := repositoryFile(t, metricsPage)
	for name := range metrics {
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s does not name the metric %s", metricsPage, name)
		}
	}
}

// AlertsNameMetrics fails a test if an alert of a file reads a metric that does not exist, or
// has no section of its own on the page of alerts. The file must have at least so many alerts.
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
	sections, found := repositoryFile(t, alertsPage), 0
	for _, g := range rule.Spec.Groups {
		for _, r := range g.Rules {
			found++
			for _, name := range regexp.MustCompile(`limpet_\w+`).FindAllString(r.Expr, -1) {
				if _, ok := metrics[histogram.ReplaceAllString(name, "")]; !ok {
					t.Errorf("%s: there is no metric %s", r.Alert, name)
				}
			}
			if !strings.HasSuffix(r.Annotations["runbook_url"], "/"+alertsPage+"#"+strings.ToLower(r.Alert)) {
				t.Errorf("%s: the annotation runbook_url is %q", r.Alert, r.Annotations["runbook_url"])
			}
			if !strings.Contains(sections, "\n### "+r.Alert+"\n") {
				t.Errorf("%s: %s has no section of this name", r.Alert, alertsPage)
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
