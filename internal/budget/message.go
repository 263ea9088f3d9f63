package budget

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// MostMessage is the length of the longest message, in bytes.
const MostMessage = 1000

const (
	mostWord   = 80  // bytes of a name in a message
	mostText   = 240 // bytes of an error in a message
	mostListed = 4   // budgets, and pods of each, in a message

	mostUser = ledger.MostText - len("…") // bytes of a user in the book, which cuts nothing off
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
	parts = append(parts, in.unblock(blocks[0], pod, in.blocked(blocks)))
	if w := in.longer(blocks); w != "" {
		parts = append(parts, w)
	}
	return bounded(strings.Join(parts, " "))
}

// why is the sentence of one budget.
func (in *Input) why(b block) string {
	name := clean(Title(b.budget.blocking()))
	switch b.reason {
	case ReasonPeers:
		return fmt.Sprintf("%s lets no pod go: %s.", name, sentence(b.budget.Closed))
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
	if b.Closed != "" {
		return fmt.Sprintf("lets no pod go: %s.", sentence(b.Closed))
	}
	n := Count(b, book, now)
	if n.Unknown != "" {
		if _, known := b.desired(); !known {
			return fmt.Sprintf("cannot read the size of the workload: %s.", sentence(n.Unknown))
		}
	}
	limit := b.limit()
	if b.Sites != nil {
		limit = b.units()
	}
	text := fmt.Sprintf("needs %d of %d pods available (%s) and has %d.", n.Desired, n.Total, limit, n.Current)
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
// entry before the others. Only the pods that are named are written: there may be thousands.
func holders(b *Budget, book ledger.Book, now time.Time) string {
	entries, others := unavailable(b, book, now)
	var list []string
	for _, e := range entries[:min(len(entries), mostListed)] {
		list = append(list, fmt.Sprintf("%s (%s by %s, %s ago)", clean(e.Pod), clean(e.Vector), clean(e.By), age(now.Sub(e.Since))))
	}
	for _, p := range others[:min(len(others), mostListed-len(list))] {
		list = append(list, p.state(b))
	}
	if more := len(entries) + len(others) - len(list); more > 0 {
		list = append(list, fmt.Sprintf("%d more", more))
	}
	if missing := int(b.Expected) - len(b.Pods); missing > 0 && b.Unknown == "" {
		list = append(list, fmt.Sprintf("%d not created", missing))
	}
	return strings.Join(list, ", ")
}

// unavailable returns the entries of a budget's pods, and the other pods that do not count, in
// an order that does not depend on the order of the pods.
func unavailable(b *Budget, book ledger.Book, now time.Time) (entries []ledger.Entry, others []*Pod) {
	for i := range b.Pods {
		p := &b.Pods[i]
		if inUse(book, p.UID, now) {
			entries = append(entries, book.Entries[p.UID])
		} else if !b.counts(p) {
			others = append(others, p)
		}
	}
	slices.SortFunc(entries, func(x, y ledger.Entry) int {
		return cmp.Or(x.Since.Compare(y.Since), strings.Compare(x.UID, y.UID))
	})
	slices.SortFunc(others, func(x, y *Pod) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), strings.Compare(x.UID, y.UID))
	})
	return entries, others
}

// state is the name of a pod, with the reason why it is not available.
func (p *Pod) state(b *Budget) string {
	switch {
	case p.Finished:
		return clean(p.Name) + " (ends)"
	case p.OutOfService:
		return clean(p.Name) + " (out of service)"
	case p.Available && p.Displaced:
		return clean(p.Name) + " (has another address than the one that was kept)"
	case p.Serving && p.Changing:
		return clean(p.Name) + " (its change was not seen by the kubelet yet)"
	case p.Serving && b.Rules.Stable > 0:
		return fmt.Sprintf("%s (Ready for less than %s)", clean(p.Name), age(b.Rules.Stable))
	case p.Ready:
		return clean(p.Name) + " (labelled unavailable)"
	}
	return clean(p.Name) + " (not Ready)"
}

// unblock says what would let the pod go.
func (in *Input) unblock(b block, pod string, blocked bool) string {
	desired, _ := b.budget.desired()
	switch {
	case b.reason == ReasonPeers:
		return fmt.Sprintf("Pod %s may go when all peers answer, agree, and have the pods that they must have.", pod)
	case b.reason == ReasonExhausted && b.budget.Sites != nil && (in.DryRun || blocked):
		return fmt.Sprintf("Pod %s may go when a peer has sent a unit, or when one more pod is available.", pod)
	case b.reason == ReasonExhausted && b.budget.Sites != nil:
		return fmt.Sprintf("Pod %s may go when a peer has sent a unit, which this request asks for, or when one more pod is available.", pod)
	case b.reason == ReasonUnknownSize:
		return fmt.Sprintf("Pod %s may go when the size can be read, or with protectTotalReplicas.", pod)
	case b.reason == ReasonAddress, b.reason == ReasonNode:
		return fmt.Sprintf("Pod %s may go when its place is kept, or without the annotation limpet.dev/keep-place.", pod)
	case b.reason == ReasonFull:
		return fmt.Sprintf("Pod %s may go when other pods are gone.", pod)
	case b.budget.Unknown == "" && desired >= b.budget.Expected:
		return fmt.Sprintf("The budget lets no pod go at this size: pod %s may go with more replicas or a lower budget.", pod)
	}
	return fmt.Sprintf("Pod %s may go when one more pod is available.", pod)
}

// longer names the request that has waited longest for a pod of a budget that refuses, if it
// came before this one.
func (in *Input) longer(blocks []block) string {
	since := in.Now
	others := map[string]*ledger.Waiting{} // by the pod; a pod has thousands of neighbours, and few requests wait
	for i := range in.Book.Waiting {
		w := &in.Book.Waiting[i]
		switch known := others[w.UID]; {
		case w.Pod == in.Pod.Name && w.By == user(in.By):
			if w.Since.Before(since) {
				since = w.Since
			}
		case in.Now.Sub(w.Last) <= retry && (known == nil || w.Since.Before(known.Since)):
			others[w.UID] = w
		}
	}
	var first *ledger.Waiting
	for _, b := range blocks {
		for i := range b.budget.Pods {
			if w := others[b.budget.Pods[i].UID]; w != nil && (first == nil || w.Since.Before(first.Since)) {
				first = w
			}
		}
	}
	if first == nil || !first.Since.Before(since) {
		return ""
	}
	return fmt.Sprintf("%s asked first, for %s, %s ago.", clean(first.By), clean(first.Pod), age(in.Now.Sub(first.Since)))
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
