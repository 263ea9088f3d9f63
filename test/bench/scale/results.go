package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/limpet-io/limpet/test/bench/measure"
)

// resultsFile has what the scenes of the page found. It lies beside the page, so that a scene that runs alone in a new
// clone keeps the others.
const resultsFile = "docs/operate/runs/scale.json"

// results is what scenes found, of this run and of earlier ones.
type results struct {
	Ran    map[string]ran
	Memory *memory
	// AllRecorded has the clusters of which each pod is recorded, by their pods.
	AllRecorded map[int]*memory
	Work        *work
	Agents      *agentWork
	Loans       []string // rows of its table
}

// ran tells when and where a scene ran.
type ran struct {
	Machine measure.Machine
	Took    time.Duration
}

// quantiles are what the page tells of a sample.
type quantiles struct{ Median, P99, Worst time.Duration }

func quantilesOf(s measure.Sample) quantiles { return quantiles{s.Median(), s.P99(), s.Worst()} }

// cells prints two cells of a table, in milliseconds.
func (q quantiles) cells() string {
	return fmt.Sprintf("%s / %s | %s", measure.Millis(q.Median), measure.Millis(q.P99), measure.Millis(q.Worst))
}

// machines prints the machines of the scenes, each once.
func (r *results) machines() string {
	var w strings.Builder
	on := map[string][]string{}
	var order []string
	for _, name := range r.runs() {
		machine := r.Ran[name].Machine.Hardware()
		if on[machine] == nil {
			order = append(order, machine)
		}
		on[machine] = append(on[machine], name)
	}
	for _, machine := range order {
		scenes := ""
		if len(order) > 1 {
			scenes = strings.Join(on[machine], ", ") + ": "
		}
		w.WriteString("* " + scenes + machine + "\n")
	}
	return w.String()
}

// runs returns the names of the scenes that ran, in their order.
func (r *results) runs() []string {
	return slices.SortedFunc(maps.Keys(r.Ran), func(a, b string) int {
		at := func(name string) int { return slices.Index(sceneNames(), strings.Fields(name)[0]) }
		return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
}

// day returns when a scene ran.
func (r *results) day(name string) string {
	if ran, ok := r.Ran[name]; ok {
		return ran.Machine.Day
	}
	return "–"
}

// sizes returns the sizes of the clusters of which each pod is recorded.
func (r *results) sizes() []int { return slices.Sorted(maps.Keys(r.AllRecorded)) }

// readResults reads what earlier runs found.
func readResults(path string) (*results, error) {
	r := &results{Ran: map[string]ran{}, AllRecorded: map[int]*memory{}}
	return r, measure.Earlier(path, r)
}

func (r *results) write(path string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}
