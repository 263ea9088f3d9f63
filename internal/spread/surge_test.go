package spread_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/spread"
)

// TestSurges resolves the numbers of a rollout as the Deployment controller does: where both are 0, one pod goes first.
func TestSurges(t *testing.T) {
	for name, tc := range map[string]struct {
		replicas       int32
		away, addition string
		want           bool
	}{
		"the defaults and three pods": {3, "25%", "25%", true},
		"the defaults and four pods":  {4, "25%", "25%", false},
		"no pod is away":              {4, "0", "1", true},
		"no pod more, of three":       {3, "25%", "0", false},
		"no pod more, of four":        {4, "25%", "0", false},
		"no percent more":             {3, "25%", "0%", false},
		"no pod":                      {0, "25%", "25%", false},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &tc.replicas}}
			d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{
				MaxUnavailable: new(intstr.Parse(tc.away)), MaxSurge: new(intstr.Parse(tc.addition)),
			}
			if got := spread.Surges(d); got != tc.want {
				t.Errorf("%t, want %t", got, tc.want)
			}
		})
	}
}
