package chaos

import (
	"slices"
	"sync"
	"time"

	"github.com/limpet-io/limpet/test/disruptions"
)

// Sights notes when watches of the observer showed which versions. It tells a budget that was broken from a cluster in
// which no watch could know of a loss in time.
type Sights struct {
	mutex sync.Mutex
	shown map[string][]sight // by resource, versions and times ascending
}

type sight struct {
	version uint64
	at      time.Time
}

// NewSights returns Sights without any version.
func NewSights() *Sights { return &Sights{shown: map[string][]sight{}} }

// Show tells that the watch of a resource has shown all changes up to a version.
func (s *Sights) Show(resource string, version uint64, at time.Time) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	all := s.shown[resource]
	if n := len(all); n == 0 || all[n-1].version < version {
		s.shown[resource] = append(all, sight{version, at})
	}
}

// Seen returns for any time the time up to which the watches had shown all changes of some events.
func (s *Sights) Seen(events []disruptions.Event) func(time.Time) time.Time {
	shown := s.delays(events)
	return func(at time.Time) time.Time {
		seen := at
		for _, d := range shown {
			if d.done.Before(seen) && d.shown.After(at) {
				seen = d.done
			}
		}
		return seen
	}
}

// Longest returns how long after a change the watches showed it, at the most.
func (s *Sights) Longest(events []disruptions.Event) time.Duration {
	longest := time.Duration(0)
	for _, d := range s.delays(events) {
		longest = max(longest, d.shown.Sub(d.done))
	}
	return longest
}

// delay is the time between a change and its sight.
type delay struct{ done, shown time.Time }

// delays returns the delay of each change that was shown. A change that the watches never showed has none: it came
// after their end.
func (s *Sights) delays(events []disruptions.Event) []delay {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var found []delay
	for _, e := range events {
		all := s.shown[e.Resource]
		i, _ := slices.BinarySearchFunc(all, e.Version, func(one sight, version uint64) int {
			if one.version < version {
				return -1
			}
			return 1
		})
		if e.Version > 0 && i < len(all) {
			found = append(found, delay{e.Done, all[i].at})
		}
	}
	return found
}
