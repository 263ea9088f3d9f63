package endpoint

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

// BuildInfo is the metric limpet_build_info, which is always 1. Its labels say which program runs,
// in which version.
func BuildInfo(program, version string) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "limpet_build_info", Help: "Always 1. The labels name the program, its version and the Go version that built it.",
		ConstLabels: prometheus.Labels{"program": program, "version": version, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
}
