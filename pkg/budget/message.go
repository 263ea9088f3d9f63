package budget

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/pkg/ledger"
)

// MostMessage is the length of the longest message, in bytes.
const MostMessage = 1000

const (
	mostUser   = 250 // bytes of a user in the book
	mostWord   = 80  // bytes of a name in a message
	mostText   = 240 // bytes of an error in a message
	mostListed = 4   // budgets, and pods of each, in a message
)

// refusal is the message of a refused request.
func refusal(in *Input, blocks []block) string {
	pod := clean(in.Pod.Name)
	var parts []string
	for i, b := range blocks {
		if i == mostListed {
			parts = append(parts, fmt.Sprintf("%d more budgets refuse.", len(blocks)-i))
			break
		}
		parts = append(parts, in.why(b))
	}
	parts = append(parts, in.unblock(blocks[0], pod))
	if w := in.longer(blocks); w != "" {
		parts = append(parts, w)
	}
	return bounded(strings.Join(parts, " "))
}

// why is the sentence of one budget.
func (in *Input) why(b block) string {
	name := "PodUnavailableBudget " + clean(b.budget.Name)
	switch b.reason {
	case ReasonUnknownSize:
		return fmt.Sprintf("%s cannot read the size of the workload: %s.", name, sentence(b.budget.Unknown))
	case ReasonAddress:
		return fmt.Sprintf("%s keeps places, and the address would not be kept: %s.", name, sentence(in.Place.Address))
	case ReasonNode:
		return fmt.Sprintf("%s keeps places, and no node would take the rebuilt pod: %s.", name, sentence(in.Place.Node))
	case ReasonFull:
		return fmt.Sprintf("%s has %d pods on their way, and the book is full.", name, len(in.Book.Entries))
	default: // no unit is left
	}
	return fmt.Sprintf("%s %s", name, Explain(*b.budget, in.Book, in.Now))
}

// Explain says what a budget needs, what it has, and which pods have its units.
func Explain(b Budget, book ledger.Book, now time.Time) string {
	n := Count(b, book, now)
	if n.Unknown != "" {
		if _, known := b.desired(); !known {
			return fmt.Sprintf("cannot read the size of the workload: %s.", sentence(n.Unknown))
		}
	}
	text := fmt.Sprintf("needs %d of %d pods available (%s) and has %d.", n.Desired, n.Total, b.limit(), n.Current)
	if list := holders(&b, book, now); list != "" {
		text += " Not available: " + list + "."
	}
	return text
}

// limit is the number that the user wrote.
func (b *Budget) limit() string {
	write := func(name string, v *intstr.IntOrString) string { return name + " " + clean(v.String()) }
	switch {
	case b.MaxUnavailable != nil:
		return write("maxUnavailable", b.MaxUnavailable)
	case b.MinAvailable != nil:
		return write("minAvailable", b.MinAvailable)
	}
	return "no limit"
}

// holders lists the pods that are not available, those with an entry first and the oldest
// entry before the others.
func holders(b *Budget, book ledger.Book, now time.Time) string {
	var entries []ledger.Entry
	var others []string
	for i := range b.Pods {
		p := &b.Pods[i]
		if inUse(book, p.UID, now) {
			entries = append(entries, book.Entries[p.UID])
		} else if !b.counts(p) {
			others = append(others, p.state(b))
		}
	}
	slices.SortFunc(entries, func(x, y ledger.Entry) int {
		if d := x.Since.Compare(y.Since); d != 0 {
			return d
		}
		return strings.Compare(x.UID, y.UID)
	})
	slices.Sort(others)
	var list []string
	for _, e := range entries {
		list = append(list, fmt.Sprintf("%s (%s by %s, %s ago)", clean(e.Pod), clean(e.Vector), clean(e.By), age(now.Sub(e.Since))))
	}
	list = append(list, others...)
	if more := len(list) - mostListed; more > 0 {
		list = append(list[:mostListed], fmt.Sprintf("%d more", more))
	}
	if missing := int(b.Expected) - len(b.Pods); missing > 0 && b.Unknown == "" {
		list = append(list, fmt.Sprintf("%d not created", missing))
	}
	return strings.Join(list, ", ")
}

// state is the name of a pod, with the reason why it is not available.
func (p *Pod) state(b *Budget) string {
	switch {
	case p.Finished:
		return clean(p.Name) + " (ends)"
	case p.Available && p.Displaced:
		return clean(p.Name) + " (has another address than the one that was kept)"
	case p.Serving && b.Rules.Stable > 0:
		return fmt.Sprintf("%s (Ready for less than %s)", clean(p.Name), age(b.Rules.Stable))
	case p.Ready:
		return clean(p.Name) + " (labelled unavailable)"
	}
	return clean(p.Name) + " (not Ready)"
}

// unblock says what would let the pod go.
func (in *Input) unblock(b block, pod string) string {
	n := Count(*b.budget, in.Book, in.Now)
	switch {
	case b.reason == ReasonUnknownSize:
		return fmt.Sprintf("Pod %s may go when the size can be read, or with protectTotalReplicas.", pod)
	case b.reason == ReasonAddress, b.reason == ReasonNode:
		return fmt.Sprintf("Pod %s may go when its place is kept, or without the annotation limpet.dev/keep-place.", pod)
	case b.reason == ReasonFull:
		return fmt.Sprintf("Pod %s may go when other pods are gone.", pod)
	case n.Desired >= n.Total:
		return fmt.Sprintf("The budget lets no pod go at this size: pod %s may go with more replicas or a lower budget.", pod)
	}
	return fmt.Sprintf("Pod %s may go when one more pod is available.", pod)
}

// longer names the request that has waited longest, if it came before this one.
func (in *Input) longer(blocks []block) string {
	since := in.Now
	var first *ledger.Waiting
	for i := range in.Book.Waiting {
		w := &in.Book.Waiting[i]
		own := w.Pod == in.Pod.Name && w.By == user(in.By)
		if own && w.Since.Before(since) {
			since = w.Since
		}
		if !own && in.Now.Sub(w.Last) <= retry && in.waitsFor(blocks, w.UID) && (first == nil || w.Since.Before(first.Since)) {
			first = w
		}
	}
	if first == nil || !first.Since.Before(since) {
		return ""
	}
	return fmt.Sprintf("%s has waited longer, for %s, since %s.", clean(first.By), clean(first.Pod), age(in.Now.Sub(first.Since)))
}

// waitsFor tells whether a pod is covered by one of the budgets that refuse.
func (in *Input) waitsFor(blocks []block, uid string) bool {
	return slices.ContainsFunc(blocks, func(b block) bool {
		return slices.ContainsFunc(b.budget.Pods, func(p Pod) bool { return p.UID == uid })
	})
}

func staleMessage(in Input) string {
	return bounded(fmt.Sprintf("The pod %s that was to be evicted is gone. The pod that has its name now was created later.", clean(in.Pod.Name)))
}

func manyPDBs(in Input) string {
	var list []string
	for i, p := range sortedPDBs(in.PDBs) {
		if i == mostListed {
			list = append(list, fmt.Sprintf("%d more", len(in.PDBs)-i))
			break
		}
		list = append(list, fmt.Sprintf("%s (needs %d healthy pods and has %d)", clean(p.Name), p.DesiredHealthy, p.CurrentHealthy))
	}
	return bounded(fmt.Sprintf("Pod %s has %d PodDisruptionBudgets, and Kubernetes evicts no pod that has more than one: %s. "+
		"Replace them by PodUnavailableBudgets, of which a pod may have several.",
		clean(in.Pod.Name), len(in.PDBs), strings.Join(list, ", ")))
}

// age is a duration in seconds, or in minutes from two minutes on.
func age(d time.Duration) string {
	if d < 0 {
		d = 0
	}
	if d < 2*time.Minute {
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return fmt.Sprintf("%d min", int(d.Minutes()))
}

// clean bounds a name, and replaces what is not printable: control characters could forge
// lines of a terminal or a log.
func clean(name string) string { return printable(name, mostWord) }

// user is clean for a user in the book: long enough to tell users apart.
func user(name string) string { return printable(name, mostUser) }

// sentence is clean for the text of an error, which may have several lines.
func sentence(text string) string { return printable(strings.ReplaceAll(text, "\n", "; "), mostText) }

func printable(text string, most int) string {
	var out strings.Builder
	for _, r := range text {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			r = '?'
		}
		if out.Len()+utf8.RuneLen(r) > most {
			out.WriteString("…")
			break
		}
		out.WriteRune(r)
	}
	return out.String()
}

// bounded cuts a message to MostMessage bytes, between characters.
func bounded(text string) string {
	if len(text) <= MostMessage {
		return text
	}
	cut := MostMessage - len("…")
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
