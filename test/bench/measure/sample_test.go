package measure_test

import (
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/bench/measure"
)

func TestQuantiles(t *testing.T) {
	var hundred measure.Sample
	for i := 100; i > 0; i-- {
		hundred = append(hundred, time.Duration(i)*time.Millisecond)
	}
	for name, tc := range map[string]struct {
		got, want time.Duration
	}{
		"the median of a hundred":            {hundred.Median(), 51 * time.Millisecond},
		"the 99th percentile of a hundred":   {hundred.P99(), 100 * time.Millisecond},
		"the slowest":                        {hundred.Worst(), 100 * time.Millisecond},
		"the 99th percentile of one":         {measure.Sample{7}.P99(), 7},
		"the median of none":                 {measure.Sample(nil).Median(), 0},
		"the order of the runs is unchanged": {hundred[0], 100 * time.Millisecond},
		"the quantile 0 is the fastest":      {hundred.Quantile(0), time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.got != tc.want {
				t.Errorf("got %s, want %s", tc.got, tc.want)
			}
		})
	}
}

func TestTargetsExplainMisses(t *testing.T) {
	text := measure.Targets([]measure.Target{
		{What: "a", Met: true, Why: "not printed"},
		{What: "b", Why: "the disk is slow"},
	})
	if !strings.Contains(text, "* b: the disk is slow") || strings.Contains(text, "not printed") || strings.Count(text, "missed") != 1 {
		t.Error(text)
	}
}
