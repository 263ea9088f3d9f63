package scalein_test

import (
	"fmt"
	"testing"

	"github.com/limpet-io/limpet/internal/spread/scalein"
)

// BenchmarkPlan decides about a large ReplicaSet whose costs are right.
func BenchmarkPlan(b *testing.B) {
	in := scalein.Input{Balanced: true}
	for i := range 5000 {
		zone := fmt.Sprint("zone-", i%3)
		in.Pods = append(in.Pods, apod(fmt.Sprintf("web-%04d", i), zone, fmt.Sprint(zone, "-", i%100)))
	}
	apply(in.Pods, scalein.Plan(in))
	for b.Loop() {
		if d := scalein.Plan(in); len(d.Writes) > 0 {
			b.Fatalf("%d writes", len(d.Writes))
		}
	}
}
