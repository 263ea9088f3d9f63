package placement

import (
	"strings"
	"time"
)

// mostRecent bounds the memory of creations. If more pods than that are created in a minute, the
// older ones are forgotten; their entries then stay until they expire, and no subset is overfilled.
const mostRecent = 65536

// creationKey is a creation that became a pod. Users choose what their pods say, so that the
// namespace belongs to the key.
type creationKey struct{ namespace, key string }

// recent remembers creations in two halves: when the newer one is old or full, it becomes the
// older one.
type recent struct {
	newer, older map[creationKey]sight
	since        time.Time
}

// sight is when a pod was first seen, and in which version.
type sight struct {
	version string
	at      time.Time
}

func (r *recent) put(key creationKey, version string, now time.Time) {
	if now.Sub(r.since) > remembered || len(r.newer) >= mostRecent {
		r.older, r.newer, r.since = r.newer, nil, now
	}
	if r.newer == nil {
		r.newer = map[creationKey]sight{}
	}
	key.key = strings.Clone(key.key) // of an annotation
	r.newer[key] = sight{version, now}
}

func (r *recent) get(key creationKey) (s sight, ok bool) {
	if s, ok = r.newer[key]; ok {
		return s, true
	}
	s, ok = r.older[key]
	return s, ok
}
