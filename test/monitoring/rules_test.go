package monitoring_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/limpet-io/limpet/test/monitoring"
)

// alert is a rule of deploy/alerts.
type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// rules returns the alerts of all files, and writes each file for Prometheus into dir.
func rules(t *testing.T, dir string) (alerts []alert, files []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "deploy", "alerts", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if filepath.Base(path) == "kustomization.yaml" {
			continue
		}
		var object struct {
			Spec struct {
				Groups []struct {
					Name  string
					Rules []alert
				}
			}
		}
		read(t, path, &object)
		for _, group := range object.Spec.Groups {
			alerts = append(alerts, group.Rules...)
		}
	}
	files, count, err := monitoring.WriteRules(root, dir)
	if err != nil || count != len(alerts) {
		t.Fatalf("wrote %d of %d rules: %v", count, len(alerts), err)
	}
	if len(alerts) < 20 {
		t.Fatalf("found %d alerts in %v: the test tests little", len(alerts), paths)
	}
	return alerts, files
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatalf("read %s: %v", path, err)
	}
}

func write(t *testing.T, path string, what any) string {
	t.Helper()
	data, err := yaml.Marshal(what)
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		t.Fatalf("write %s: %v", path, err)
	}
	return path
}

// scene is what an alert sees: series in the notation of promtool, a value each minute. Names are labels of the first alert that fires.
type scene struct {
	At, Names     string
	Fires, Silent []map[string]string
}

// TestEachAlertFiresAndIsSilent has promtool judge each scene of testdata/scenes.yaml. Each alert
// has scenes in which it fires, and scenes in which it does not.
func TestEachAlertFiresAndIsSilent(t *testing.T) {
	dir := t.TempDir()
	alerts, files := rules(t, dir)
	promtool(t, append([]string{"check", "rules", "--lint-fatal"}, files...)...)
	scenes := map[string]scene{}
	read(t, "testdata/scenes.yaml", &scenes)
	var tests []any
	for _, a := range alerts {
		s, ok := scenes[a.Alert]
		if !ok || len(s.Fires) == 0 || len(s.Silent) == 0 {
			t.Errorf("testdata/scenes.yaml needs a scene in which %s fires, and one in which it is silent", a.Alert)
		}
		delete(scenes, a.Alert)
		for i, series := range s.Fires {
			tests = append(tests, toolTest(a.Alert, "", s.At, series, 1))
			if i == 0 {
				tests = append(tests, toolTest(a.Alert, s.Names, s.At, series, 1))
			}
		}
		for _, series := range s.Silent {
			tests = append(tests, toolTest(a.Alert, "", s.At, series, 0))
		}
	}
	for name := range scenes {
		t.Errorf("testdata/scenes.yaml has %s, which is no alert", name)
	}
	promtool(t, "test", "rules", write(t, filepath.Join(dir, "tests.yaml"), map[string]any{
		"rule_files": files, "evaluation_interval": "1m", "tests": tests,
	}))
}

// toolTest is one test of promtool: how many instances of an alert, of those with labels, fire at a time.
func toolTest(alert, labels, at string, series map[string]string, firing int) map[string]any {
	var input []any
	for _, name := range slices.Sorted(maps.Keys(series)) {
		input = append(input, map[string]any{"series": name, "values": series[name]})
	}
	return map[string]any{
		"interval": "1m", "input_series": input,
		"promql_expr_test": []any{map[string]any{
			"expr": fmt.Sprintf(`count(ALERTS{alertname=%q,alertstate="firing",%s}) or vector(0)`, alert, labels), "eval_time": at,
			"exp_samples": []any{map[string]any{"labels": "{}", "value": firing}},
		}},
	}
}

func promtool(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), prometheus.Promtool, args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", args[:2], err, out)
	}
}

// TestEachAlertHasItsSection compares the alerts with their sections in the page of troubles, in both directions.
func TestEachAlertHasItsSection(t *testing.T) {
	alerts, _ := rules(t, t.TempDir())
	page, err := os.ReadFile(filepath.Join(root, "docs", "operate", "troubles.md"))
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(page), "\n### Limpet")[1:] {
		title, text, _ := strings.Cut(s, "\n")
		sections["Limpet"+title] = text
	}
	for _, a := range alerts {
		if sections[a.Alert] == "" {
			t.Errorf("docs/operate/troubles.md does not say what %s means, and what to do", a.Alert)
		}
		delete(sections, a.Alert)
		if want := "https://github.com/limpet-io/limpet/blob/main/docs/operate/troubles.md#" + strings.ToLower(a.Alert); a.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url is %q, want %q", a.Alert, a.Annotations["runbook_url"], want)
		}
		if !regexp.MustCompile(`^(critical|warning)$`).MatchString(a.Labels["severity"]) || a.Annotations["summary"] == "" {
			t.Errorf("%s lacks a severity or a summary: %v %v", a.Alert, a.Labels, a.Annotations)
		}
	}
	for title := range sections {
		t.Errorf("docs/operate/troubles.md has a section %s, and there is no such alert", title)
	}
}
