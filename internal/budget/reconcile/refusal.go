package reconcile

import (
	"slices"
	"time"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/fair"
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
	pods  fair.Rests[string]
}

// next returns the refusals to report, the oldest first. A leader reports no refusal from before its time: a request
// that is refused comes again.
func (t *teller) next(decisions []ledger.Decision, now time.Time) (tell []ledger.Decision) {
	since := t.since
	for _, d := range slices.Backward(decisions) { // the newest is the first
		if !d.Time.After(since) {
			continue
		}
		if d.Time.After(t.since) {
			t.since = d.Time
		}
		if d.Verdict == string(budget.Refused) && t.pods.Take(d.Pod, now, tellAgain, mostEvents) {
			tell = append(tell, d)
		}
	}
	return tell
}
