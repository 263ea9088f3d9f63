package controller

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// PodWaits is what the nominator looks at, and PodMoved the recorder.
var (
	PodWaits = podWaits
	PodMoved = podMoved
)

// Behind is how a recorder knows that the cache does not show its last write.
var Behind = behind

// Patiently is how every reconciler here is run.
func Patiently(r reconcile.Reconciler) reconcile.TypedReconciler[ctrl.Request] { return patiently(r) }

// Nudge is one pass of a nudger.
func (n *Nudger) Nudge(ctx context.Context) error { return n.nudge(ctx) }
