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
	newer, older map[creationKey]string // the version in which the pod was first seen
	since        time.Time
}

func (r *recent) put(key creationKey, version string, now time.Time) {
	if now.Sub(r.since) > remembered || len(r.newer) >= mostRecent {
		r.older, r.newer, r.since = r.newer, nil, now
	}
	if r.newer == nil {
		r.newer = map[creationKey]string{}
	}
	key.key = strings.Clone(key.key) // of an annotation
	r.newer[key] = version
}

func (r *recent) get(key creationKey) (version string, ok bool) {
	if version, ok = r.newer[key]; ok {
		return version, true
	}
	version, ok = r.older[key]
	return version, ok
}
