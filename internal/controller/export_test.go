package controller

import "context"

// PodWaits is what the nominator looks at.
var PodWaits = podWaits

// Nudge is one pass of a nudger.
func (n *Nudger) Nudge(ctx context.Context) error { return n.nudge(ctx) }
