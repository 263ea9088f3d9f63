package controller

import "context"

// PodWaits is what the nominator looks at, and PodMoved the recorder.
var (
	PodWaits = podWaits
	PodMoved = podMoved
)

// Behind is how a recorder knows that the cache does not show its last write.
var Behind = behind

// Nudge is one pass of a nudger.
func (n *Nudger) Nudge(ctx context.Context) error { return n.nudge(ctx) }
