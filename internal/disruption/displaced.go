package disruption

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/cluster"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// displaced tells whether a pod has other addresses than those that are still reserved for it:
// it came back elsewhere.
func (r *Reader) displaced(ctx context.Context, pod *corev1.Pod, now time.Time) (bool, error) {
	if _, asks := pod.Annotations[reservation.RetainAnnotation]; !asks || len(pod.Status.PodIPs) == 0 {
		return false, nil
	}
	held, err := cluster.ReservationsOf(ctx, r.cached, client.ObjectKeyFromObject(pod))
	return slices.ContainsFunc(held, func(h limpetv1alpha1.IPReservation) bool { return waits(h, pod, now) }), err
}

// waits tells whether a reservation for an earlier life of a pod was not taken by the pod.
func waits(h limpetv1alpha1.IPReservation, pod *corev1.Pod, now time.Time) bool {
	s := h.Status
	if s.State != limpetv1alpha1.IPReserved || s.PodUID == string(pod.UID) || s.Until == nil || !now.Before(s.Until.Time) {
		return false
	}
	return !slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool {
		return slices.Contains(strings.Split(s.IPs, ","), ip.IP)
	})
}
