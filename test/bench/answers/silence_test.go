package answers_test

import (
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/bench/answers"
)

func TestSilenceEndsWithTheAnswersOfTheSuccessor(t *testing.T) {
	start := time.Now()
	at := func(seconds int, answered bool) answers.Asked {
		return answers.Asked{At: start.Add(time.Duration(seconds) * time.Second), Answered: answered}
	}
	ready, end := start.Add(7*time.Second), start.Add(20*time.Second)
	for name, tc := range map[string]struct {
		asked []answers.Asked
		want  time.Duration
	}{
		"all were answered":                {[]answers.Asked{at(1, true), at(2, true)}, 0},
		"one was not":                      {[]answers.Asked{at(1, true), at(2, false), at(3, true), at(4, true)}, 3 * time.Second},
		"two silences, noted in any order": {[]answers.Asked{at(4, true), at(1, false), at(3, false), at(2, true)}, 4 * time.Second},
		"one is lost before the silence":   {[]answers.Asked{at(0, false), at(1, true), at(7, true), at(8, false), at(9, true)}, 9 * time.Second},
		"one is lost much later":           {[]answers.Asked{at(1, false), at(8, true), at(14, true), at(15, false), at(16, true)}, 8 * time.Second},
		"none was answered any more":       {[]answers.Asked{at(1, true), at(2, false)}, answers.Never},
		"failures before and after":        {[]answers.Asked{at(-1, false), at(1, true), at(20, false)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := answers.Silence(tc.asked, start, ready, end); got != tc.want {
				t.Errorf("Silence: %v, want %v", got, tc.want)
			}
		})
	}
}

func TestQuantileIsAMeasuredValue(t *testing.T) {
	sample := []time.Duration{4, 1, answers.Never, 2, 3}
	for percent, want := range map[int]time.Duration{1: 1, 50: 3, 80: 4, 99: answers.Never} {
		if got := answers.Quantile(sample, percent); got != want {
			t.Errorf("Quantile %d: %v, want %v", percent, got, want)
		}
	}
}
