package cluster

import (
	"fmt"

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

// NotReadySince makes a Part that has a clock.
var NotReadySince = notReadySince
