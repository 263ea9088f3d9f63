package endpoint_test

import (
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/limpet-io/limpet/internal/platform/endpoint"
)

// TestANamespaceHidesNoOther shows as many objects as the metric may name: one namespace leaves room for another.
func TestANamespaceHidesNoOther(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(endpoint.NewTroubles("troubles", "For a test.", "budget", func() []endpoint.Trouble {
		all := []endpoint.Trouble{{Namespace: "z", Name: "web", What: "Waits", Value: 7}}
		for i := range 1000 {
			all = append(all, endpoint.Trouble{Namespace: "a", Name: fmt.Sprint(i), What: "NotEnforced", Value: 1})
		}
		return all
	}, "Waits", "NotEnforced"))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, m := range families[0].GetMetric() {
		if m.GetGauge().GetValue() == 7 {
			named++
		}
	}
	if n := len(families[0].GetMetric()); n != 52 || named != 1 {
		t.Errorf("%d series, of which %d are of the other namespace", n, named)
	}
}
