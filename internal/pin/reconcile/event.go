package reconcile

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
)

// unbound passes the pods without a node when a controller starts.
func unbound(pod cluster.Outline) bool { return !pod.Bound() }

// recordChanged passes the events of a pod that can change its record. A pod that was
// re-created while the watch was interrupted appears as an update of its predecessor, and
// may differ from it by its UID alone. When the controller starts, each state is reconciled in any
// case; a pod that waits may name a state that is gone.
var recordChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool {
		return !e.IsInInitialList || pin.PinnedBy(e.Object.(*corev1.Pod)) != ""
	},
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
		return before.UID != after.UID ||
			before.Spec.NodeName != after.Spec.NodeName ||
			before.Status.Phase != after.Status.Phase ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			!slices.Equal(before.Status.Conditions, after.Status.Conditions) || // only conditions that the cache keeps
			!slices.Equal(before.Status.PodIPs, after.Status.PodIPs) ||
			pin.Unstarted(before) != pin.Unstarted(after) ||
			!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences) ||
			!maps.Equal(before.Annotations, after.Annotations)
	},
}

// podWaits passes pods that have our gate when they are first seen: a gate cannot be added
// later. A pod that was re-created while the watch was interrupted is first seen as an
// update of its predecessor. A pod with further gates is seen again when one of them is
// opened. Other updates come from the nomination itself, and would open the gate twice. The
// periodic resync of the cache makes up for missed events.
//
// It also passes pods whose nomination has become useless.
var podWaits = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool {
		pod := e.Object.(*corev1.Pod)
		return pin.Gated(pod) || idles(pod)
	},
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
		another, resync := before.UID != after.UID, before.ResourceVersion == after.ResourceVersion
		opened := len(before.Spec.SchedulingGates) != len(after.Spec.SchedulingGates)
		return pin.Gated(after) && (another || resync || opened) || idles(after) && (another || resync || pin.Stage(before) != pin.Stage(after))
	},
	DeleteFunc:  func(event.DeleteEvent) bool { return false },
	GenericFunc: func(event.GenericEvent) bool { return false },
}

// idles reports whether a nomination is to be withdrawn, at once or later.
func idles(pod *corev1.Pod) bool { return !pin.Gated(pod) && pin.Stage(pod) != "" }

// nodeRelabelled passes new nodes, and nodes whose labels changed. When the controller starts, each
// state is reconciled in any case.
var nodeRelabelled = predicate.Funcs{
	CreateFunc: newSinceStart,
	UpdateFunc: func(e event.UpdateEvent) bool {
		return !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels())
	},
	DeleteFunc: func(event.DeleteEvent) bool { return false },
}

// createdOrDeleted passes the creation and the deletion of objects.
var createdOrDeleted = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

// newSinceStart passes objects that were created since the controller started.
func newSinceStart(e event.CreateEvent) bool { return !e.IsInInitialList }

// schedulabilityChanged passes the events of a node that change whether it takes pods.
var schedulabilityChanged = predicate.Funcs{
	CreateFunc: newSinceStart,
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
		return !equality.Semantic.DeepEqual(before.Spec, after.Spec) ||
			!equality.Semantic.DeepEqual(before.Status.Conditions, after.Status.Conditions)
	},
}
