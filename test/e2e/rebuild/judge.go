// Package rebuild rebuilds the pods of a StatefulSet in all ordinary ways, and compares nodes
// and addresses before and after.
package rebuild

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Seen is a pod at one moment.
type Seen struct {
	Name     string
	Node     string
	IPs      []string
	UID      types.UID
	Restarts int32
	Ready    bool
	Deleting bool
}

// Outcome is the result of a rebuild.
type Outcome string

// The outcomes.
const (
	Kept     Outcome = "kept"     // same node, same addresses
	Followed Outcome = "followed" // other node, same addresses
	Moved    Outcome = "moved"    // other node, other addresses
	Lost     Outcome = "lost"     // same node, other addresses
	Gone     Outcome = "gone"     // not rebuilt
)

// Rebuilt reports whether after is the Ready pod that was rebuilt from before: another pod
// object, or the same one with restarted containers.
func Rebuilt(before, after Seen) bool {
	return after.Ready && !after.Deleting && (after.UID != before.UID || after.Restarts > before.Restarts)
}

// Judge returns the outcome of the rebuild of a pod.
func Judge(before, after Seen) Outcome {
	switch {
	case !Rebuilt(before, after):
		return Gone
	case before.Node != after.Node && slices.Equal(before.IPs, after.IPs):
		return Followed
	case before.Node != after.Node:
		return Moved
	case !slices.Equal(before.IPs, after.IPs):
		return Lost
	}
	return Kept
}

// Result is the rebuild of one pod in one step.
type Result struct {
	Step    string        `json:"step"`
	Pod     string        `json:"pod"`
	Outcome Outcome       `json:"outcome"`
	Before  Seen          `json:"before"`
	After   Seen          `json:"after"`
	Took    time.Duration `json:"tookNanoseconds"`
	// Answered is true when the pod responded at all addresses that it had before.
	Answered bool   `json:"answered"`
	Problem  string `json:"problem,omitempty"`
	// FreeToMove is the reason why the pod was free to move.
	FreeToMove string `json:"excused,omitempty"`
}

// Good reports whether the addresses of the pod were kept, and the pod responds.
func (r Result) Good() bool { return (r.Outcome == Kept || r.Outcome == Followed) && r.Answered }

// Count returns how many pods kept their addresses, of how many that should have been, and how many were
// free to move.
func Count(results []Result) (kept, of, moved int) {
	for _, r := range results {
		switch {
		case r.FreeToMove != "" && r.Outcome == Moved && r.Answered:
			moved++
		case r.Good():
			kept++
			of++
		default:
			of++
		}
	}
	return kept, of, moved
}
