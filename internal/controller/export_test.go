package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/limpet-io/limpet/pkg/pin"
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

// CountKinds names the kinds that count after a ConfigMap had one text after the other,
// where gone is its absence.
func CountKinds(gone string, texts ...string) (names []string) {
	var sound map[string][]schema.GroupVersionKind
	var lists []kindList
	for _, text := range texts {
		lists = nil
		if text != gone {
			list := kindList{from: &corev1.ConfigMap{}}
			list.kinds, list.err = pin.ParseKinds(text)
			lists = append(lists, list)
		}
		sound = keepSound(lists, sound)
	}
	for _, kind := range union(lists).Named {
		names = append(names, kind.Kind)
	}
	return names
}
