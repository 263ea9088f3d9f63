package cluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Waits returns an error unless so many requests wait for a read that has not begun.
func (r *LiveReader) Waits(key client.ObjectKey, requests int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := 0
	for id, read := range r.waiting {
		if id.ObjectKey == key {
			found += read.requests
		}
	}
	if found != requests {
		return fmt.Errorf("%d requests wait for %s, want %d", found, key, requests)
	}
	return nil
}

// Reconnect returns a lister and watcher that reconnects by a clock.
var Reconnect = reconnect

// NotReady notes nodes that are not Ready.
type NotReady = notReady

// NewNotReady returns one that has a clock.
func NewNotReady(c clock.PassiveClock) *NotReady { return &notReady{clock: c} }

// Note is its Part.
func (n *notReady) Note(from, to *corev1.Node) { n.note(from, to) }

// Has reports whether a node is noted.
func (n *notReady) Has(uid types.UID) bool {
	_, has := n.since.Load(uid)
	return has
}

// CacheOptionsWith configures a cache that notes nodes.
func CacheOptionsWith(n *NotReady, features ...Needs) cache.Options { return cacheOptions(n, features) }
