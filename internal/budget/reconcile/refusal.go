package reconcile

import (
	"slices"
	"time"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// Bounds of the events about refusals: a script may ask a thousand times a second.
const (
	tellAgain  = time.Minute // about the same pod
	mostEvents = 20          // about one budget in tellAgain
)

// teller remembers which refusals were reported as events.
type teller struct {
	since time.Time // of the newest decision that was looked at
	pods  map[string]time.Time
}

// next returns the refusals to report, the oldest first, and what to remember. A leader
// reports no refusal from before its time: a request that is refused comes again.
func (t teller) next(decisions []ledger.Decision, now time.Time) ([]ledger.Decision, teller) {
	after := teller{since: t.since, pods: map[string]time.Time{}}
	for pod, at := range t.pods {
		if now.Sub(at) < tellAgain {
			after.pods[pod] = at
		}
	}
	var tell []ledger.Decision
	for _, d := range slices.Backward(decisions) { // the newest is the first
		if !d.Time.After(t.since) {
			continue
		}
		if d.Time.After(after.since) {
			after.since = d.Time
		}
		if _, told := after.pods[d.Pod]; told || d.Verdict != string(budget.Refused) || len(after.pods) >= mostEvents {
			continue
		}
		after.pods[d.Pod] = now
		tell = append(tell, d)
	}
	return tell, after
}
