package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// sight sees what happens to reservations and addresses in the caches.
type sight struct {
	client client.Client
	clock  clock.PassiveClock
	add    func(pin.Notice)
}

// earlyEnd is how much earlier than its end a reservation may vanish and still count as over: the
// clocks of nodes differ.
const earlyEnd = 30 * time.Second

// asksFirst passes the pods that ask to keep their addresses when a leader starts. A conflict that lasts concerns each
// leader: the one before may have ended before it told.
func asksFirst(pod cluster.Outline) bool {
	return pod.Annotated(reservation.RetainAnnotation) || pod.Annotated(reservation.KeepAnnotation) || pod.Annotated(reservation.ModeAnnotation)
}

// follow adds notices until end is called. Of what was there before, only two pods with one address give notices.
func (s sight) follow(ctx context.Context, informers cache.Informers) (end func(), err error) {
	handlers := []struct {
		of      client.Object
		handler toolscache.ResourceEventHandler
	}{
		{&limpetv1alpha1.IPReservation{}, toolscache.ResourceEventHandlerFuncs{
			UpdateFunc: s.reservationChanged, DeleteFunc: func(o any) { s.reservationDeleted(ctx, o) },
		}},
		{&corev1.Pod{}, cluster.Beginning(asksFirst, toolscache.ResourceEventHandlerFuncs{
			AddFunc: func(o any) { s.podStarted(ctx, nil, o) }, UpdateFunc: func(before, o any) { s.podStarted(ctx, before, o) },
		})},
	}
	var ends []func() error
	end = func() {
		for _, e := range ends {
			_ = e() // only an informer that has ended refuses
		}
	}
	for _, h := range handlers {
		informer, err := informers.GetInformer(ctx, h.of)
		if err != nil {
			return end, fmt.Errorf("watch %T: %w", h.of, err)
		}
		added, err := informer.AddEventHandler(h.handler)
		if err != nil {
			return end, fmt.Errorf("watch %T: %w", h.of, err)
		}
		ends = append(ends, func() error { return informer.RemoveEventHandler(added) })
	}
	return end, nil
}

// reservationChanged sees that the addresses of a pod are reserved from now on.
func (s sight) reservationChanged(from, to any) {
	before, ok := from.(*limpetv1alpha1.IPReservation)
	after, also := to.(*limpetv1alpha1.IPReservation)
	if !ok || !also || before.UID != after.UID || before.Status.Until != nil || after.Status.Until == nil || reservation.IsOwnerName(after.Status.Pod) {
		return
	}
	s.add(noticeOf(pin.ReasonReserved, after))
}

// reservationDeleted sees that a reservation is over, or that its addresses may be another pod's. Addresses that a user
// gave up were not taken from the pod, whichever pod has them now.
func (s sight) reservationDeleted(ctx context.Context, o any) {
	r := cluster.LastKnown[*limpetv1alpha1.IPReservation](o)
	if r == nil || r.Status.Until == nil || reservation.IsOwnerName(r.Status.Pod) { // no pod has this name
		return
	}
	node, err := cluster.Node(ctx, s.client, r.Status.Node)
	if err != nil || !cluster.Believed(node, r.Status.Node, r.OwnerReferences) { // only a cache that ends returns an error
		return
	}
	n := noticeOf(pin.ReasonReclaimed, r)
	switch {
	case givenUp(r):
		n.Reason = pin.ReasonGivenUp
	case !s.clock.Now().Before(n.Until.Add(-earlyEnd)):
		n.Reason = pin.ReasonExpired
	}
	s.add(n)
}

func noticeOf(reason string, r *limpetv1alpha1.IPReservation) pin.Notice {
	return pin.Notice{
		Reason: reason, Namespace: r.Namespace, Workload: pin.WorkloadName(r.Status.Pod), Pod: r.Status.Pod, UID: types.UID(r.Status.PodUID),
		Node: r.Status.Node, IPs: r.Status.IPs, Until: r.Status.Until.Time,
	}
}

// podStarted sees that two pods have one address. Each of them that asks to keep its address may be told.
func (s sight) podStarted(ctx context.Context, from, to any) {
	before, _ := from.(*corev1.Pod)
	pod, ok := to.(*corev1.Pod)
	if !ok || len(pod.Status.PodIPs) == 0 || before != nil && before.UID == pod.UID && slices.Equal(before.Status.PodIPs, pod.Status.PodIPs) {
		return
	}
	s.notOwner(ctx, pod)
	others, err := s.usersOf(ctx, pod, pin.Addresses(pod))
	if err != nil { // only a cache that ends returns an error
		return
	}
	for _, other := range others {
		s.conflict(pod, other)
		s.conflict(other, pod)
	}
}

// notOwner sees that a pod has other addresses than those of its owner.
func (s sight) notOwner(ctx context.Context, pod *corev1.Pod) {
	if pin.AskedOwner(pod.Annotations) == "" {
		return
	}
	chain, err := cluster.ChainOf(ctx, s.client, pod)
	of, listed := cluster.PodsOfOwner(ctx, s.client, pod.Namespace, cmp.Or(reservation.OwnerName("", pod.Annotations), pin.CompleteOwner(pod, chain)))
	if n, tell := pin.NotOwner(pod, of); tell && err == nil && listed == nil { // only a cache that ends returns an error
		if metav1.GetControllerOfNoCopy(pod) != nil {
			n.About = ownerOf(pod)
		}
		s.add(n)
	}
}

func (s sight) conflict(pod, other *corev1.Pod) {
	if !reservation.Asks(pod.Annotations) {
		return
	}
	n := pin.Notice{
		Reason: pin.ReasonConflict, Namespace: pod.Namespace, Workload: pin.WorkloadName(pod.Name), Pod: pod.Name, UID: pod.UID,
		Node: pod.Spec.NodeName, IPs: pin.Addresses(pod), Other: types.NamespacedName{Namespace: other.Namespace, Name: other.Name},
	}
	s.add(n)
}

// confirm reports whether notices are still true when they are told.
func (s sight) confirm(ctx context.Context, n *pin.Notice) (bool, error) {
	switch n.Reason {
	case pin.ReasonReserved:
		return s.shows(ctx, n, func(r *limpetv1alpha1.IPReservation) bool {
			return r.Status.Until != nil && r.Status.PodUID == string(n.UID)
		})
	case pin.ReasonReclaimed:
		return s.taken(ctx, n, nil)
	case pin.ReasonConflict:
		held, err := s.shows(ctx, n, func(*limpetv1alpha1.IPReservation) bool { return true })
		if !held || err != nil {
			return false, err
		}
		var pod corev1.Pod
		if err := s.client.Get(ctx, client.ObjectKey{Namespace: n.Namespace, Name: n.Pod}, &pod); err != nil || !runs(&pod) || pod.UID != n.UID {
			return false, client.IgnoreNotFound(err)
		}
		return s.taken(ctx, n, &pod)
	}
	return true, nil
}

// shows reports whether an agent shows a reservation of the pod's name with its addresses on its node.
func (s sight) shows(ctx context.Context, n *pin.Notice, fits func(*limpetv1alpha1.IPReservation) bool) (bool, error) {
	held, err := cluster.ReservationsOf(ctx, s.client, types.NamespacedName{Namespace: n.Namespace, Name: n.Pod})
	if err != nil {
		return false, fmt.Errorf("confirm event %s: %w", n.Reason, err)
	}
	return slices.ContainsFunc(held, func(r limpetv1alpha1.IPReservation) bool {
		return r.Status.Node == n.Node && shareIP(r.Status.IPs, n.IPs) && fits(&r)
	}), nil
}

// taken finds the other pod that has the addresses, and notes it.
func (s sight) taken(ctx context.Context, n *pin.Notice, pod *corev1.Pod) (bool, error) {
	if pod == nil {
		pod = &corev1.Pod{}
		pod.Namespace, pod.Name, pod.Spec.NodeName = n.Namespace, n.Pod, n.Node
	}
	others, err := s.usersOf(ctx, pod, n.IPs)
	if len(others) == 0 || err != nil {
		return false, err
	}
	n.Other = client.ObjectKeyFromObject(others[0])
	return true, nil
}

// usersOf returns the other running pods of a pod's node that have one of some addresses.
func (s sight) usersOf(ctx context.Context, pod *corev1.Pod, ips string) ([]*corev1.Pod, error) {
	others, err := podsWith(ctx, s.client, pod, ips)
	return slices.DeleteFunc(others, func(o *corev1.Pod) bool { return o.Spec.NodeName != pod.Spec.NodeName || !runs(o) }), err
}

// podsWith returns the other pods that have one of some addresses, which ips lists with commas.
func podsWith(ctx context.Context, r client.Reader, pod *corev1.Pod, ips string) (others []*corev1.Pod, err error) {
	for ip := range strings.SplitSeq(ips, ",") {
		pods, listed := cluster.PodsAt(ctx, r, ip)
		err = errors.Join(err, listed)
		for i := range pods {
			if o := &pods[i]; client.ObjectKeyFromObject(o) != client.ObjectKeyFromObject(pod) {
				others = append(others, o)
			}
		}
	}
	return others, err
}

// runs reports whether a pod has its addresses for itself.
func runs(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !workload.Ended(pod) }

func shareIP(a, b string) bool {
	return slices.ContainsFunc(strings.Split(a, ","), func(ip string) bool { return slices.Contains(strings.Split(b, ","), ip) })
}
