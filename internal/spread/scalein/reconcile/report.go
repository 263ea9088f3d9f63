package reconcile

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/spread/scalein"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

const (
	// ReasonForeignCost is the reason of the event on a workload whose pods have costs of others.
	ReasonForeignCost = "ForeignDeletionCost"
	// ReasonUnknownOrder is the reason of the event on a workload that asks for an unknown order.
	ReasonUnknownOrder = "UnknownScaleInOrder"
	mostTold           = 5 // pods of one event
)

// report tells of pods whose costs are left alone. An event is made if further pods are found.
func (r *Reconciler) report(s *situation, d scalein.Decision) {
	if !r.memory.setForeign(s.key, d.Foreign) {
		return
	}
	note := fmt.Sprintf("pods %v", d.Foreign[:min(len(d.Foreign), mostTold)])
	if more := len(d.Foreign) - mostTold; more > 0 {
		note += fmt.Sprintf(" and %d more", more)
	}
	r.Events.Eventf(s.workload, nil, corev1.EventTypeWarning, ReasonForeignCost, "Order",
		"%s have a %s that Limpet did not write, and keep it; remedy: remove the annotation, or end the program that writes it", note, annotationCost)
}

// reportOrder tells of an order that does not exist.
func (r *Reconciler) reportOrder(s *situation) {
	order, asked := s.workload.GetAnnotations()[appsv1beta1.AnnotationScaleIn]
	if !asked || order == appsv1beta1.ScaleInBalanced || s.wants == 0 { // one of several ReplicaSets tells it
		return
	}
	r.Events.Eventf(s.workload, nil, corev1.EventTypeWarning, ReasonUnknownOrder, "Order",
		"%s is %.64q, and must be %q", appsv1beta1.AnnotationScaleIn, order, appsv1beta1.ScaleInBalanced)
}
