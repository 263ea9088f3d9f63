// Package board plans what the page of `kubectl limpet ui` shows: what needs attention, the addresses of each node, the
// places of the pods of each workload, the subsets of each spread, and the holders of the units of each budget. Plan is a pure
// function from facts. A board is bounded, whatever the objects of a cluster say.
package board

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/platform/fair"
)

// Parts are the facts that Plan needs, without events.
var Parts = slices.Concat(console.StatusParts, []facts.Part{facts.Pods, facts.DisruptionBudgets, facts.ReplicaSets, facts.StatefulSets})

// Section is a part of the page.
type Section string

// Sections of the page.
const (
	Needs     Section = "needs"
	Addresses Section = "addresses"
	Workloads Section = "workloads"
	Spreads   Section = "spreads"
	Budgets   Section = "budgets"
)

// Note is a sentence about a section as a whole: what was not read or is left out.
type Note struct {
	Section Section `json:"section"`
	Text    string  `json:"text"`
}

// Board is what the page shows.
type Board struct {
	// Namespace is the only one whose objects were read; empty for all.
	Namespace string `json:"namespace"`
	// Partial tells that not all pods and reservations were read: an address without a known holder
	// may have one.
	Partial   bool              `json:"partial"`
	Programs  []console.Program `json:"programs"`
	Needs     []console.Problem `json:"needs"`
	Nodes     []node            `json:"nodes"`
	Workloads []Workload        `json:"workloads"`
	Spreads   []spread          `json:"spreads"`
	Budgets   []Budget          `json:"budgets"`
	Notes     []Note            `json:"notes"`
}

// Plan returns the board of facts. The namespace is the one that was read; empty for all.
func Plan(f *facts.Facts, namespace string) Board {
	b := Board{Namespace: namespace, Notes: unread(f.Unread), Partial: namespace != "" || f.Unknown(facts.Pods, facts.Kept) != ""}
	if namespace != "" {
		b.Notes = append(b.Notes, Note{Addresses, "only namespace " + namespace + " was read: addresses of pods of other namespaces are shown as unknown"})
	}
	b.addStatus(f)
	b.Nodes = keepParts(&b, Addresses, "nodes", "addresses in use", nodes(f), mostNodes, mostAllUsed)
	b.Workloads = keepParts(&b, Workloads, "PersistentPodStates", "pods", workloads(f), mostWorkloads, mostAllPods)
	b.Spreads = keep(&b, Spreads, "WorkloadSpreads", spreads(f), mostSpreads)
	b.Budgets = keepParts(&b, Budgets, "budgets", "holders, requests and places", budgets(f), mostBudgets, mostAllHolders)
	return b
}

// sections are those that show a part; the others are about what needs attention.
var sections = map[string][]Section{
	facts.Nodes.Kind: {Addresses}, facts.Pools.Kind: {Addresses}, facts.Kept.Kind: {Addresses, Workloads}, facts.Loans.Kind: {Addresses, Workloads},
	facts.Pods.Kind: {Addresses, Workloads, Budgets}, facts.States.Kind: {Workloads}, facts.Events.Kind: {Workloads}, facts.Spreads.Kind: {Spreads},
	facts.Budgets.Kind: {Budgets}, facts.Divided.Kind: {Budgets}, facts.DisruptionBudgets.Kind: {Budgets}, facts.ReplicaSets.Kind: {Budgets},
	facts.StatefulSets.Kind: {Budgets}, facts.Books.Kind: {Budgets},
}

// unread says at each section what it lacks.
func unread(kinds []facts.Unread) []Note {
	notes := []Note{}
	for _, u := range kinds {
		of := sections[u.Kind]
		if of == nil {
			of = []Section{Needs}
		}
		for _, s := range of {
			notes = append(notes, Note{s, "not read: " + u.Kind + ": " + u.Reason})
		}
	}
	return notes
}

// key names an object, or what is about it.
type key struct{ namespace, name string }

// entry is a part of a board before it is made.
type entry[T any] struct {
	key
	make func() T
}

func (k key) compare(other key) int {
	return cmp.Or(strings.Compare(k.namespace, other.namespace), strings.Compare(k.name, other.name))
}

// keep makes at most a number of entries, and notes how many are left out. Namespaces take turns: a tenant with very
// many objects displaces no other.
func keep[T any](b *Board, s Section, what string, all []entry[T], most int) []T {
	if left := len(all) - most; left > 0 {
		b.Notes = append(b.Notes, Note{s, fmt.Sprintf("%d %s are left out: the page shows %d", left, what, most)})
		all = fair.InTurns(all, func(e entry[T]) string { return e.namespace })[:most]
		slices.SortStableFunc(all, func(a, b entry[T]) int { return a.compare(b.key) })
	}
	made := make([]T, len(all))
	for i, e := range all {
		made[i] = e.make()
	}
	return made
}

// Bounds of a board. The text of a tenant's object is cut at longest bytes.
const (
	mostNodes      = 1000
	mostWorkloads  = 1000
	mostBudgets    = 1000
	mostSpreads    = 1000
	mostNeeds      = 200
	mostPods       = 200 // of one workload
	mostSubsets    = 64  // of one spread
	mostPast       = 8   // of one pod
	mostHolders    = 50  // of one budget, and the same number of requests that wait
	mostPlaces     = 200 // of one budget with groups
	mostNetworks   = 16  // of one node
	mostUsed       = 1024
	mostSets       = 16
	mostAllPods    = 5_000   // of all workloads together
	mostAllHolders = 5_000   // of all budgets together
	mostAllUsed    = 100_000 // of all nodes together
	mostWork       = 20_000  // pods times budgets of one namespace whose places are drawn
	longest        = 400
)

// short cuts a text.
func short(text string) string {
	if len(text) > longest {
		return strings.ToValidUTF8(text[:longest], "") + "…"
	}
	return text
}

// byName orders names with numbers at their ends as people count: web-2 is before web-10.
func byName(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}
