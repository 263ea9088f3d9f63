package agent_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/yaml"

	"github.com/limpet-io/limpet/internal/agent"
	"github.com/limpet-io/limpet/internal/testenv"
)

// described is a registry that keeps what it registers.
type described struct {
	*prometheus.Registry
	names map[string]bool
}

func (d described) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		descriptions := make(chan *prometheus.Desc, 10)
		c.Describe(descriptions)
		close(descriptions)
		for desc := range descriptions {
			d.names[regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(desc.String())[1]] = true
		}
	}
	d.Registry.MustRegister(all...)
}

// TestAlertsNameMetricsAndRunbooks checks that each alert names a metric of the agent and a section
// of the runbook, and that the runbook names each metric.
func TestAlertsNameMetricsAndRunbooks(t *testing.T) {
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	read := func(path ...string) string {
		data, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	metrics := described{prometheus.NewRegistry(), map[string]bool{}}
	n := newNode(t, "alerts")
	n.Registry = metrics
	if _, err := agent.New(n.Config); err != nil {
		t.Fatal(err)
	}
	runbook := read("docs", "operate", "operations.md")
	for name := range metrics.names {
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
	if err := yaml.Unmarshal([]byte(read("deploy", "alerts", "prometheusrule.yaml")), &rule); err != nil {
		t.Fatal(err)
	}
	headings := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(runbook, -1) {
		title := regexp.MustCompile("[^a-z0-9 -]").ReplaceAllString(strings.ToLower(m[1]), "")
		headings[strings.ReplaceAll(title, " ", "-")] = true
	}
	found := 0
	for _, g := range rule.Spec.Groups {
		for _, r := range g.Rules {
			found++
			for _, name := range regexp.MustCompile(`limpet_\w+`).FindAllString(r.Expr, -1) {
				if !metrics.names[name] {
					t.Errorf("%s: the agent has no metric %s", r.Alert, name)
				}
			}
			_, heading, _ := strings.Cut(r.Annotations["runbook"], "operations.md#")
			if !headings[heading] {
				t.Errorf("%s: docs/operate/operations.md has no section %q", r.Alert, heading)
			}
		}
	}
	if found < 5 {
		t.Errorf("found %d alerts: the test tests little", found)
	}
}
