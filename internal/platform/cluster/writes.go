package cluster

import (
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// CacheLag is the longest time that a cache takes to show a write. An object that is
// older than the last write even then was restored from a backup.
const CacheLag = 10 * time.Second

// Write is a controller's own last write of an object.
type Write struct {
	// Version is the resource version after the write; "" before the first write.
	Version string
	At      time.Time
}

// Unseen returns how long to wait for the cache, which shows an object in some version,
// to show the write; 0 when there is nothing to wait for. A decision from the older
// version would be refused as a conflict.
func (w Write) Unseen(cached string, now time.Time) time.Duration {
	if behind(cached, w.Version) && now.Sub(w.At) < CacheLag {
		return CacheLag
	}
	return 0
}

// behind reports whether the cached version is older than a known one.
func behind(cached, known string) bool {
	order, err := resourceversion.CompareResourceVersion(cached, known)
	return err == nil && order < 0 // before the first write nothing is known, which is no version
}
