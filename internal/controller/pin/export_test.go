package pin

import "context"

// PodWaits is what the Nominator looks at, and RecordChanged what the Recorder looks at.
var (
	PodWaits      = podWaits
	RecordChanged = recordChanged
)

// Resync is one pass of a Resyncer.
func (n *Resyncer) Resync(ctx context.Context) error { return n.resync(ctx) }

// GateQueue makes the queue of the Nominator, and GateHandler adds pods to it.
var (
	GateQueue   = gateQueue
	GateHandler = gateHandler
)
