package testenv

import (
	"regexp"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Collectors takes metrics in place of a registry, to name their labels. It knows those that
// have no value yet as well.
type Collectors struct{ all []prometheus.Collector }

// Register takes a metric.
func (c *Collectors) Register(metric prometheus.Collector) error {
	c.all = append(c.all, metric)
	return nil
}

// MustRegister takes metrics.
func (c *Collectors) MustRegister(metrics ...prometheus.Collector) { c.all = append(c.all, metrics...) }

// Unregister is never needed.
func (c *Collectors) Unregister(prometheus.Collector) bool { return false }

var described = regexp.MustCompile(`fqName: "(\w+)".*constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}`)

// Labels returns the names of the labels of each metric.
func (c *Collectors) Labels() map[string][]string {
	found := map[string][]string{}
	for _, metric := range c.all {
		descriptions := make(chan *prometheus.Desc)
		go func() {
			metric.Describe(descriptions)
			close(descriptions)
		}()
		for d := range descriptions {
			m := described.FindStringSubmatch(d.String())
			found[m[1]] = strings.FieldsFunc(m[3], func(r rune) bool { return r == ',' })
			if m[2] != "" {
				found[m[1]] = append(found[m[1]], m[2])
			}
		}
	}
	return found
}

var (
	sample = regexp.MustCompile(`(?m)^(\w+)\{(.*)\} `)
	label  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// LabelsShown returns the labels of each metric that a scrape shows, and their values.
func LabelsShown(scrape string) map[string]map[string][]string {
	found := map[string]map[string][]string{}
	for _, s := range sample.FindAllStringSubmatch(scrape, -1) {
		if found[s[1]] == nil {
			found[s[1]] = map[string][]string{}
		}
		for _, l := range label.FindAllStringSubmatch(s[2], -1) {
			found[s[1]][l[1]] = append(found[s[1]][l[1]], l[2])
		}
	}
	return found
}
