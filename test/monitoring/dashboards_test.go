package monitoring_test

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// dashboard is what the tests read of a dashboard of Grafana.
type dashboard struct {
	UID, Title, Description, Refresh string
	Editable                         *bool
	Panels                           []panel
	Templating                       struct{ List []variable }
}

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               *source
	FieldConfig              struct{ Defaults struct{ Unit string } }
	Targets                  []struct {
		RefID, Expr, LegendFormat string
		Datasource                *source
	}
}

type source struct{ Type, UID string }

type variable struct {
	Name, Type, Definition, AllValue string
	Refresh                          int
	Query                            any
	Datasource                       *source
}

// dashboards returns the dashboards by their file.
func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	found := map[string]dashboard{}
	paths, err := filepath.Glob(filepath.Join(root, "deploy", "monitoring", "dashboards", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		var d dashboard
		read(t, path, &d)
		found[filepath.Base(path)] = d
	}
	if len(found) != 2 {
		t.Fatalf("found the dashboards %v, want two", slices.Collect(maps.Keys(found)))
	}
	return found
}

var (
	labelValues = regexp.MustCompile(`^label_values\((\w+(?:\{.*\})?), (\w+)\)$`)
	counter     = regexp.MustCompile(`\blimpet_\w+_(total|count|bucket)\b`)
	rated       = regexp.MustCompile(`\b(rate|increase)\(limpet_\w+(\{[^}]*\})?\[(\$__rate_interval|\$__range|24h)\]\)`)
	theSource   = source{"prometheus", "${datasource}"}
	grouped     = regexp.MustCompile(`^(sum|max|count) by `)
	byVariable  = regexp.MustCompile(`\$(\w+)`)
	builtIn     = []string{"__rate_interval", "__range", "datasource"}
	statusCount = regexp.MustCompile(`^max(?: by \(outcome\) )?\(limpet_workload_rebuilds_total\{[^}]*\}\)$`)
)

// TestDashboardsFollowTheRules checks the rules of the usual linter that apply here.
func TestDashboardsFollowTheRules(t *testing.T) {
	for file, d := range dashboards(t) {
		t.Run(file, func(t *testing.T) {
			if d.Editable == nil || *d.Editable || d.UID == "" || d.Title == "" || d.Description == "" || d.Refresh == "" {
				t.Error("a dashboard has a uid, a title, a description and a refresh, and is not editable")
			}
			variables := checkVariables(t, d)
			seen := map[int]bool{}
			for i, p := range d.Panels {
				if seen[p.ID] {
					t.Errorf("two panels have the ID %d", p.ID)
				}
				seen[p.ID] = true
				checkPanel(t, p, variables)
				for _, other := range d.Panels[:i] {
					a, b := p.GridPos, other.GridPos
					if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
						t.Errorf("%s lies over %s", p.Title, other.Title)
					}
				}
			}
		})
	}
}

// checkVariables returns the names that queries may use.
func checkVariables(t *testing.T, d dashboard) []string {
	t.Helper()
	names := slices.Clone(builtIn)
	for i, v := range d.Templating.List {
		names = append(names, v.Name)
		switch {
		case i == 0:
			if v.Name != "datasource" || v.Type != "datasource" || v.Query != "prometheus" {
				t.Errorf("the first variable is %+v, want the data source", v)
			}
		case v.Type != "query" || v.Refresh != 2 || v.Datasource == nil || *v.Datasource != theSource || !labelValues.MatchString(v.Definition):
			t.Errorf("the variable %s is no query of labels that is asked again for another time", v.Name)
		}
	}
	return names
}

func checkPanel(t *testing.T, p panel, variables []string) {
	t.Helper()
	if p.Type == "row" {
		return
	}
	if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" || p.Datasource == nil || *p.Datasource != theSource || len(p.Targets) == 0 {
		t.Errorf("the panel %q needs a title, a description, a unit, the variable data source and a query", p.Title)
	}
	if p.GridPos.X+p.GridPos.W > 24 || p.GridPos.W == 0 || p.GridPos.H == 0 {
		t.Errorf("the panel %q is at %+v, outside of the 24 columns", p.Title, p.GridPos)
	}
	for _, target := range p.Targets {
		if target.Datasource == nil || *target.Datasource != theSource || target.RefID == "" {
			t.Errorf("%s: the query %s has no data source or no name", p.Title, target.Expr)
		}
		for _, m := range byVariable.FindAllStringSubmatch(target.Expr, -1) {
			if !slices.Contains(variables, m[1]) {
				t.Errorf("%s: the query uses the variable %s, which the dashboard lacks", p.Title, m[1])
			}
		}
		if strings.Count(target.Expr, "[") > 0 && len(rated.FindAllString(target.Expr, -1)) != strings.Count(target.Expr, "[") {
			t.Errorf("%s: each range is that of a rate over $__rate_interval: %s", p.Title, target.Expr)
		}
		if counters := len(counter.FindAllString(target.Expr, -1)); counters > strings.Count(target.Expr, "[") && !statusCount.MatchString(target.Expr) {
			t.Errorf("%s: a counter is shown without a rate: %s", p.Title, target.Expr)
		}
		if grouped.MatchString(target.Expr) && !strings.Contains(target.LegendFormat, "{{") {
			t.Errorf("%s: the legend does not name the series of %s", p.Title, target.Expr)
		}
	}
}
