package budget

import (
	"time"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

const (
	// wakeAfter is the silence after which a controller waits for longer than a unit has been free.
	wakeAfter = 10 * time.Second
	// wakeAgain is when a controller that did not ask again is woken once more.
	wakeAgain = 5 * time.Minute
)

// Wake returns the requests whose controllers are to retry now: the longest waiting first, and no more
// than units are free. A controller waits ever longer after each refusal, and learns of no free unit.
// People, drains and the garbage collector ask again by themselves. known tells of a pod by its UID whether its workload can be
// woken, and when that was done last.
func Wake(waiting []ledger.Waiting, units int, now time.Time, known func(uid string) (last time.Time, can bool)) (wake []ledger.Waiting) {
	for _, w := range waiting {
		last, can := known(w.UID)
		asked := last.IsZero() || w.Last.After(last) || now.Sub(last) >= wakeAgain
		if can && asked && len(wake) < units && w.ByWorkload && now.Sub(w.Last) >= wakeAfter {
			wake = append(wake, w)
		}
	}
	return wake
}
