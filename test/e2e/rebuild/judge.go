// Package rebuild rebuilds the pods of a StatefulSet in every ordinary way and judges
// what became of their nodes and addresses.
package rebuild

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Seen is one pod at one moment.
type Seen struct {
	Name     string
	Node     string
	IPs      []string
	UID      types.UID
	Restarts int32
	Ready    bool
	Deleting bool
}

// Outcome is what became of a rebuilt pod.
type Outcome string

// The outcomes.
const (
	Kept  Outcome = "kept"  // same node, same addresses
	Moved Outcome = "moved" // other node
	Lost  Outcome = "lost"  // same node, other addresses
	Gone  Outcome = "gone"  // not rebuilt
)

// Rebuilt reports whether after is a later life of before that is Ready: another pod
// object, or the same one with its containers started again.
func Rebuilt(before, after Seen) bool {
	return after.Ready && !after.Deleting && (after.UID != before.UID || after.Restarts > before.Restarts)
}

// Judge compares a pod before and after.
func Judge(before, after Seen) Outcome {
	switch {
	case !Rebuilt(before, after):
		return Gone
	case before.Node != after.Node:
		return Moved
	case !slices.Equal(before.IPs, after.IPs):
		return Lost
	}
	return Kept
}

// Result is the story of one pod in one step.
type Result struct {
	Step    string        `json:"step"`
	Pod     string        `json:"pod"`
	Outcome Outcome       `json:"outcome"`
	Before  Seen          `json:"before"`
	After   Seen          `json:"after"`
	Took    time.Duration `json:"tookNanoseconds"`
	// Answered tells that the pod itself answered on every address it had before.
	Answered bool   `json:"answered"`
	Problem  string `json:"problem,omitempty"`
	// Excused is why the pod was free to move.
	Excused string `json:"excused,omitempty"`
}

// Good reports whether the pod was kept, as it should have been, and answers.
func (r Result) Good() bool { return r.Outcome == Kept && r.Answered }

// Count sums results up: how many should have been kept, and were; and how many were
// excused.
func Count(results []Result) (kept, of, excused int) {
	for _, r := range results {
		switch {
		case r.Excused != "" && r.Outcome == Moved && r.Answered:
			excused++
		case r.Good():
			kept++
			of++
		default:
			of++
		}
	}
	return kept, of, excused
}
