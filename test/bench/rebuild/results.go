package main

import (
	"slices"
	"time"

	"github.com/limpet-io/limpet/test/bench/answers"
	"github.com/limpet-io/limpet/test/bench/measure"
)

// readyTitle is what the time until the rebuilt pod is Ready is called among the ways of a client.
const readyTitle = "delete → Ready"

// figures are what rebuilds took, by the way of the client.
type figures struct {
	took map[string][]time.Duration
	summary
}

func (f *figures) add(title string, took time.Duration) {
	if f.took == nil {
		f.took = map[string][]time.Duration{}
	}
	f.took[title] = append(f.took[title], took)
}

// summary is what the page shows of the rebuilds of one side.
type summary struct {
	Quantiles map[string]quantiles
	Rebuilds  int
	Same      int // node and addresses
	Retried   int // the first sandbox failed
}

// quantiles are answers.Never if so many rebuilds ended without an answer.
type quantiles struct {
	P50, P99 time.Duration
	Never    int
}

func (f *figures) summarise() summary {
	s := f.summary
	s.Quantiles, s.Rebuilds = map[string]quantiles{}, len(f.took[readyTitle])
	for title, took := range f.took {
		s.Quantiles[title] = quantiles{
			P50: answers.Quantile(took, 50), P99: answers.Quantile(took, 99),
			Never: len(slices.DeleteFunc(slices.Clone(took), func(d time.Duration) bool { return d != answers.Never })),
		}
	}
	return s
}

// results are what scenes found, in this run and in earlier ones.
type results struct {
	Ran    map[string]ran
	Scenes map[string][]summary // of each side
	Pods   int                  // of the agent
	Agent  int64                // highest memory in bytes
}

// ran tells when and where a scene ran.
type ran struct {
	Machine measure.Machine
	Took    time.Duration
}

// readResults reads what earlier runs found.
func readResults(path string) (*results, error) {
	r := &results{Ran: map[string]ran{}, Scenes: map[string][]summary{}}
	return r, measure.Earlier(path, r)
}
