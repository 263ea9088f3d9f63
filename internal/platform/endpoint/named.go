package endpoint

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limpet-io/limpet/internal/platform/fair"
)

// mostNamed bounds the objects that one metric names: tenants make any number of them.
const mostNamed = 50

// Trouble is an object that needs attention: what of, and how much.
type Trouble struct {
	Namespace, Name, What string
	Value                 float64
}

// Troubles is a metric that names objects that need attention, so that an alert can.
type Troubles struct {
	desc  *prometheus.Desc
	kinds []string
	read  func() []Trouble
}

// NewTroubles returns such a metric of some kinds of trouble. Its labels are the namespace, the name of the object by
// label, and the trouble.
func NewTroubles(name, help, label string, read func() []Trouble, kinds ...string) Troubles {
	return Troubles{prometheus.NewDesc(name, help, []string{"workload_namespace", label, "trouble"}, nil), kinds, read}
}

// Describe sends the description.
func (t Troubles) Describe(to chan<- *prometheus.Desc) { to <- t.desc }

// Collect sends a series of each object, within the bound. Namespaces take turns. A series of 0 without names tells that
// the metric is there.
func (t Troubles) Collect(to chan<- prometheus.Metric) {
	for _, kind := range t.kinds {
		to <- prometheus.MustNewConstMetric(t.desc, prometheus.GaugeValue, 0, "", "", kind)
	}
	all := t.read()
	slices.SortFunc(all, func(a, b Trouble) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.What, b.What))
	})
	all = fair.InTurns(all, func(one Trouble) string { return one.Namespace })
	for _, one := range all[:min(len(all), mostNamed)] {
		to <- prometheus.MustNewConstMetric(t.desc, prometheus.GaugeValue, one.Value, one.Namespace, one.Name, one.What)
	}
}
