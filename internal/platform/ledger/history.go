package ledger

import (
	"cmp"
	"slices"
	"time"
)

// Two requests of one user for one pod are told apart by time.
const (
	// Quiet is the time in which a repeated request changes nothing in the book.
	Quiet = 3 * time.Second
	// Lapse is the time after which a request that was not repeated no longer waits; LongLapse is that
	// of the controller of a workload, which waits up to 17 minutes.
	Lapse     = time.Minute
	LongLapse = 20 * time.Minute
)

// Note puts a decision into the history. A refusal that is repeated is one decision, with the
// newest time: a drain that tries again each 5 s does not replace the history. The result is
// false when nothing changed.
func Note(b Book, d Decision) (Book, bool) {
	d.By, d.Vector, d.Reason, d.Verdict = short(d.By), short(d.Vector), short(d.Reason), short(d.Verdict)
	at := slices.IndexFunc(b.Decisions, func(known Decision) bool { return repeats(d, known) })
	if at >= 0 && d.Time.Sub(b.Decisions[at].Time) < Quiet {
		return b, false
	}
	rest := b.Decisions
	if at >= 0 {
		rest = slices.Delete(slices.Clone(rest), at, at+1)
	}
	b.Decisions = boundHistory(append([]Decision{d}, rest...))
	return b, true
}

// repeats reports whether a decision is the same answer to the same request as a known one.
func repeats(d, known Decision) bool {
	return d.Pod == known.Pod && d.By == known.By && d.Vector == known.Vector && d.Verdict == known.Verdict &&
		d.Reason == known.Reason && d.Time.Sub(known.Time) < Lapse && slices.Equal(d.Budgets, known.Budgets)
}

// boundHistory drops the oldest decisions. A budget with many decisions does not replace the last ones of
// the others.
func boundHistory(all []Decision) []Decision {
	size, of := 0, map[string]int{}
	var kept []Decision
	for i, d := range all {
		bytes, last := overhead+len(d.Pod)+len(d.By), i < MostDecisions
		for _, budget := range d.Budgets {
			last = last || of[budget] < lastDecisions
			bytes += len(budget) + 4
		}
		if !last {
			continue
		}
		if size += bytes; i > 0 && size > mostHistory {
			break
		}
		for _, budget := range d.Budgets {
			of[budget]++
		}
		kept = append(kept, d)
	}
	return kept
}

// Ask enters a request that was refused. A request that is repeated keeps the time of its first
// refusal. A request for another pod of the same name is a new one, and replaces the old one.
// The result is false when nothing changed.
func Ask(b Book, w Waiting) (Book, bool) {
	w.By = short(w.By)
	list := stillWaiting(b.Waiting, w.Last)
	at := slices.IndexFunc(list, w.sameRequest)
	if at >= 0 && list[at].UID == w.UID {
		if w.Last.Sub(list[at].Last) < Quiet {
			return b, false
		}
		w.Since = list[at].Since
	}
	if at >= 0 {
		list = slices.Delete(list, at, at+1)
	}
	b.Waiting = insertWaiting(list, w)
	return b, true
}

// insertWaiting does what boundWaiting does for one more request, and sorts nothing again: a
// burst of refusals would sort hundreds of requests for each one.
func insertWaiting(list []Waiting, w Waiting) []Waiting {
	if len(list) > MostWaiting || !slices.IsSortedFunc(list, longestFirst) {
		return boundWaiting(append(list, w))
	}
	if len(list) == MostWaiting {
		least := len(list) - 1 // recent
		for i := range slices.Backward(list) {
			if list[i].Last.Before(list[least].Last) {
				least = i
			}
		}
		if !w.Last.After(list[least].Last) {
			return list
		}
		list = slices.Delete(list, least, least+1)
	}
	at, _ := slices.BinarySearchFunc(list, w, longestFirst)
	return slices.Insert(list, at, w)
}

func longestFirst(a, b Waiting) int {
	return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.By, b.By))
}

func (w Waiting) sameRequest(other Waiting) bool {
	return w.Pod == other.Pod && w.By == other.By
}

// stillWaiting returns a copy without the requests that came no more.
func stillWaiting(list []Waiting, now time.Time) []Waiting {
	return slices.DeleteFunc(slices.Clone(list), func(w Waiting) bool { return !w.Waits(now) })
}

// Waits reports whether a request may come again.
func (w Waiting) Waits(now time.Time) bool {
	lapsed := now.Sub(w.Last)
	return lapsed < Lapse || lapsed < LongLapse && w.ByWorkload
}

// boundWaiting drops the requests that came least recently, and puts the longest waiting first.
func boundWaiting(list []Waiting) []Waiting {
	slices.SortStableFunc(list, func(a, b Waiting) int { return b.Last.Compare(a.Last) })
	list = list[:min(len(list), MostWaiting)]
	slices.SortStableFunc(list, longestFirst)
	return list
}
