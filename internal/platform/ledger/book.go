package ledger

import (
	"maps"
	"slices"
	"time"
)

// Use is what happens to the pod of an entry.
type Use string

// Uses of a unit.
const (
	Gone    Use = "Gone"    // the pod is deleted or evicted
	Changed Use = "Changed" // the pod is changed in place
	Placed  Use = "Placed"  // the pod is created, and has a slot of a subset
	// Restarting is a Changed pod whose kubelet has seen the change, and has not restarted a container yet.
	Restarting Use = "Restarting"
	// Leaving is a changed pod that is deleted or evicted, or a Gone one that is changed. If it does not go, it is a changed pod.
	Leaving Use = "Leaving"
)

// InPlace reports whether the pod stays.
func (u Use) InPlace() bool { return u == Changed || u == Restarting }

// changes reports whether the pod is changed, whether it stays or not.
func (u Use) changes() bool { return u.InPlace() || u == Leaving }

// Bound is how long an entry stays when the pod is not seen to go: the API server may take
// 34 seconds from the admission of a request to the write, and a cache some more.
const Bound = 40 * time.Second

// Entry is a pod that may go. Its key is the UID of the pod. A pod that is being created has no
// UID yet: its key is the UID of the request, or "/" and its name.
type Entry struct {
	UID     string
	Pod     string // its name
	Use     Use
	Vector  string
	By      string // the user
	Since   time.Time
	Expires time.Time

	// Version, Generation and Restarts are facts about the pod at the decision: its resource
	// version, its generation, and how often its containers were restarted together.
	Version              string
	Generation, Restarts int64

	// Subset and Owner say which slot a Placed pod has, and for which workload: the UID of its
	// controller. Version is then the newest version of a pod that was known at the decision.
	Subset, Owner string
}

// Holds reports whether an entry holds its unit. The clock alone ends no entry of a pod that is changed
// in place: Observe does, by what the pod shows.
func (e Entry) Holds(now time.Time) bool { return e.Use.changes() || now.Before(e.Expires) }

// Waiting is a request that was refused and may come again. Its key is Pod and By.
type Waiting struct {
	UID         string // of the pod that was asked for last
	Pod         string
	By          string
	Since, Last time.Time
	// ByWorkload: the controller of the pod's workload asks, and waits ever longer after each refusal.
	ByWorkload bool
	// Blocked: no unit of a peer would let the pod go, because something else refuses, too.
	Blocked bool
}

// Decision is one answer, for the history.
type Decision struct {
	Time                     time.Time
	Pod, Vector, Verdict, By string
	Reason                   string
	Budgets                  []string
}

// Book holds the entries of all budgets of a namespace, or those of a WorkloadSpread.
type Book struct {
	Name string
	// Seen is the newest resource version of a pod that was known when entries were removed.
	Seen string
	// Entries by the UID of their pod.
	Entries map[string]Entry
	Waiting []Waiting
	// Decisions, the newest first.
	Decisions []Decision
	// Shares of budgets over sites.
	Shares []Share
}

// Copy returns a book that shares nothing with b.
func Copy(b Book) Book {
	b.Entries = maps.Clone(b.Entries)
	b.Waiting = slices.Clone(b.Waiting)
	b.Shares = slices.Clone(b.Shares)
	b.Decisions = slices.Clone(b.Decisions)
	for i := range b.Decisions {
		b.Decisions[i].Budgets = slices.Clone(b.Decisions[i].Budgets)
	}
	return b
}
