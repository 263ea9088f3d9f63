package monitoring

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// Query is a query that returns data while Limpet runs, and the panel, variable or alert that asks it.
type Query struct{ Of, Expr string }

var (
	labelValues = regexp.MustCompile(`^label_values\((\w+(?:\{.*\})?), (\w+)\)$`)
	selector    = regexp.MustCompile(`limpet_\w+(\{[^}]*\})?`)
)

// Queries returns the queries of all panels and variables of the dashboards, and those of the series that alerts
// read. A person chose the PersistentPodState in Grafana.
func Queries(root, namespace, state string) ([]Query, error) {
	dashboards, err := ofDashboards(root, strings.NewReplacer(
		"$__rate_interval", "10s", "$__range", "10s", "$instance", ".*", "$namespace", namespace, "$workload", state,
	))
	if err != nil {
		return nil, err
	}
	alerts, err := ofAlerts(root)
	return append(dashboards, alerts...), err
}

func ofDashboards(root string, chosen *strings.Replacer) (queries []Query, err error) {
	return queries, each(filepath.Join(root, "deploy", "monitoring", "dashboards", "*.json"), func(file string, data []byte) error {
		var d struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
			Templating struct {
				List []struct{ Name, Type, Definition string }
			}
		}
		if err := yaml.Unmarshal(data, &d); err != nil {
			return err
		}
		for _, v := range d.Templating.List {
			if v.Type == "datasource" {
				continue
			}
			m := labelValues.FindStringSubmatch(chosen.Replace(v.Definition))
			if m == nil {
				return fmt.Errorf("variable %s: %q asks for no labels: %w", v.Name, v.Definition, os.ErrInvalid)
			}
			queries = append(queries, Query{file + ": variable " + v.Name, fmt.Sprintf("count by (%s) (%s)", m[2], m[1])})
		}
		for _, p := range d.Panels {
			for _, t := range p.Targets {
				queries = append(queries, Query{file + ": " + p.Title, chosen.Replace(t.Expr)})
			}
		}
		return nil
	})
}

// ofAlerts asks for the series alone: an alert returns nothing while all is well.
func ofAlerts(root string) (queries []Query, err error) {
	return queries, eachRuleFile(root, func(_ string, spec spec, _ []byte) error {
		for _, g := range spec.Groups {
			for _, r := range g.Rules {
				for _, series := range selector.FindAllString(r.Expr, -1) {
					queries = append(queries, Query{r.Alert, "count(" + series + ")"})
				}
			}
		}
		return nil
	})
}

// spec is a file of rules as Prometheus reads it.
type spec struct {
	Groups []struct {
		Rules []struct{ Alert, Expr string }
	}
}

// WriteRules writes the files of deploy/alerts for Prometheus into a directory, and counts their rules.
func WriteRules(root, dir string) (files []string, rules int, err error) {
	return files, rules, eachRuleFile(root, func(file string, spec spec, data []byte) error {
		for _, g := range spec.Groups {
			rules += len(g.Rules)
		}
		files = append(files, filepath.Join(dir, file))
		return os.WriteFile(files[len(files)-1], data, 0o600)
	})
}

// eachRuleFile gives a function each file of deploy/alerts: what is read of it, and its whole spec.
func eachRuleFile(root string, use func(file string, spec spec, data []byte) error) error {
	return each(filepath.Join(root, "deploy", "alerts", "*.yaml"), func(file string, data []byte) error {
		if file == "kustomization.yaml" {
			return nil
		}
		var whole struct{ Spec any }
		if err := yaml.Unmarshal(data, &whole); err != nil {
			return err
		}
		inner, err := yaml.Marshal(whole.Spec)
		if err != nil {
			return err
		}
		var s spec
		if err := yaml.Unmarshal(inner, &s); err != nil {
			return err
		}
		return use(file, s, inner)
	})
}

// each reads the files of a pattern, by name.
func each(pattern string, use func(file string, data []byte) error) error {
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		return fmt.Errorf("find %s: %d files: %w", pattern, len(paths), os.ErrNotExist)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err == nil {
			err = use(filepath.Base(path), data)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
	}
	return nil
}
