package workload

import (
	"fmt"
	"strings"
	"time"

	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Bounds of the annotation limpet.dev/drain-first.
const (
	leastDrain = time.Second
	mostDrain  = 10 * time.Minute
)

// DrainOf reads for how long a pod is out of service before it goes; 0 for a pod that does not ask.
func DrainOf(annotations map[string]string) (time.Duration, error) {
	text, asks := annotations[policyv1beta1.AnnotationDrainFirst]
	if !asks {
		return 0, nil
	}
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil || d < leastDrain || d > mostDrain {
		return 0, fmt.Errorf("annotation %s: %.32q: write a duration from 1s to 10m, as 10s", policyv1beta1.AnnotationDrainFirst, text)
	}
	return d, nil
}
