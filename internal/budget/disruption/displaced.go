package disruption

import (
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// displaced reports whether a pod has other addresses than those that are still reserved for it:
// it came back elsewhere.
func (r *Reader) displaced(ctx context.Context, pod *corev1.Pod, now time.Time) (bool, error) {
	if !reservation.Asks(pod.Annotations) || len(pod.Status.PodIPs) == 0 {
		return false, nil
	}
	held, err := cluster.ReservationsOf(ctx, r.cached, client.ObjectKeyFromObject(pod))
	return slices.ContainsFunc(held, func(h limpetv1alpha1.IPReservation) bool { return waits(h, pod, now) }), err
}

// endShown is the time within which an agent shows that a pod has ended. The agent waits 5 s for the
// pod's return.
const endShown = 30 * time.Second

// waits reports whether a reservation for an earlier life of a pod was not taken by the pod. Soon after
// a pod is created elsewhere, the former node may still show the earlier life.
func waits(h limpetv1alpha1.IPReservation, pod *corev1.Pod, now time.Time) bool {
	s := h.Status
	reserved := s.State == limpetv1alpha1.IPReserved && s.Until != nil && now.Before(s.Until.Time)
	ending := s.State == limpetv1alpha1.IPAttached && s.Node != pod.Spec.NodeName && now.Sub(pod.CreationTimestamp.Time) < endShown
	if s.PodUID == string(pod.UID) || !reserved && !ending {
		return false
	}
	return !slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool {
		return slices.Contains(strings.Split(s.IPs, ","), ip.IP)
	})
}
