package pin

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// PodWaits is what the Nominator looks at, and RecordChanged what the Recorder looks at.
var (
	PodWaits      = podWaits
	RecordChanged = recordChanged
)

// Resync is one pass of a Resyncer.
func (n *Resyncer) Resync(ctx context.Context) error { return n.resync(ctx) }

// NewGateQueue returns how the Nominator adds pods to its queue, and how a pod's turn begins.
func NewGateQueue() (add handler.EventHandler, begin func(ctrl.Request)) {
	g := &gateQueue{}
	return g.handler(), g.begin
}
