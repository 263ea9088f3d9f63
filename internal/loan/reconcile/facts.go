package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// attachment names one interface of an owner: each has addresses of its own.
type attachment struct{ network, ifName string }

// facts are what the caches show of one owner.
type facts struct {
	owner client.ObjectKey
	pod   *corev1.Pod             // the one that is alive; nil for none
	nodes map[string]*corev1.Node // all, with the ranges of a NodeNetwork where those matter
	loans map[attachment]*limpetv1alpha1.BorrowedAddress
	// held are the IPReservations of the owner: those of the recorded addresses first, then the newest.
	held map[attachment][]limpetv1alpha1.IPReservation
	// recorded are the addresses of the pod's last life that was Ready, and recordedOn its node.
	recorded, recordedOn string
	// all are all IPReservations of the owner, and given up are those on loan that a user gave up.
	all     []limpetv1alpha1.IPReservation
	over    bool
	givenUp map[attachment]bool
	// unsure are the networks of which the recorded addresses may be, if no node shows them and several are as near.
	unsure []string
	// segments are the networks on an L2 segment that nodes share, by node, as their agents show. Owners are the nodes that show
	// the addresses of a lost loan of such a network, and have them in their ranges.
	segments map[string]string
	owners   map[attachment]string
}

// gather reads what is known of an owner.
func (l *Lender) gather(ctx context.Context, owner client.ObjectKey) (*facts, error) {
	f := &facts{owner: owner, held: map[attachment][]limpetv1alpha1.IPReservation{}, givenUp: map[attachment]bool{}}
	var err error
	if f.loans, err = l.loansOf(ctx, owner); err != nil {
		return nil, err
	}
	held, err := cluster.ReservationsOf(ctx, l.Client, owner)
	if err != nil {
		return nil, err
	}
	if f.recorded, f.recordedOn, err = l.recorded(ctx, owner); err != nil {
		return nil, err
	}
	f.hold(held)
	nodes, err := cluster.Nodes(ctx, l.Client)
	if err != nil {
		return nil, err
	}
	if f.nodes, err = l.byName(ctx, nodes, f.addresses()); err != nil {
		return nil, err
	}
	pods, err := l.podsOf(ctx, owner)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if p := &pods[i]; workload.Alive(p) && (f.pod == nil || goesFirst(p, f.pod)) {
			f.pod = p
		}
	}
	named := strings.Contains(owner.Name, "/") // by its controller: a Job keeps pods that ended
	if len(pods) == 0 && f.recorded == "" || named && f.pod == nil {
		f.over, err = l.over(ctx, owner)
	}
	return f, errors.Join(err, l.forget(ctx, f))
}

// hold adds the IPReservations of the owner.
func (f *facts) hold(all []limpetv1alpha1.IPReservation) {
	f.all = all
	for _, r := range all {
		if at := (attachment{r.Status.Network, r.Status.Interface}); follows(&r) {
			mark := r.Status.Releases()
			f.givenUp[at] = f.givenUp[at] || mark != "" && r.Labels[limpetv1alpha1.LabelRelease] == mark
			f.held[at] = append(f.held[at], r)
		}
	}
	for _, of := range f.held {
		slices.SortFunc(of, f.likeliest)
	}
}

func (l *Lender) loansOf(ctx context.Context, owner client.ObjectKey) (map[attachment]*limpetv1alpha1.BorrowedAddress, error) {
	var loans limpetv1alpha1.BorrowedAddressList
	if err := l.Client.List(ctx, &loans, client.InNamespace(owner.Namespace), client.MatchingFields{indexOwner: owner.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list BorrowedAddresses of %s: %w", owner, err)
	}
	of := map[attachment]*limpetv1alpha1.BorrowedAddress{}
	for i := range loans.Items {
		if b := &loans.Items[i]; b.Name == b.Spec.ObjectName() { // one of another name counts for nothing
			of[attachmentOf(b)] = b
		}
	}
	return of, nil
}

// attachments are the interfaces of an owner for which something is kept, in order.
func (f *facts) attachments() []attachment {
	all := slices.Collect(maps.Keys(f.loans))
	for at := range f.held {
		if f.loans[at] == nil && f.home(at) != nil {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, func(a, b attachment) int {
		return strings.Compare(a.network+"/"+a.ifName, b.network+"/"+b.ifName)
	})
	return all
}

// homeOf is the node that has the addresses, as far as is known.
func (f *facts) homeOf(at attachment) string {
	if b := f.loans[at]; b != nil {
		return b.Status.Home
	}
	if r := f.home(at); r != nil {
		return r.Status.Node
	}
	return ""
}

// home is what shows the addresses that the owner had last, but for those that belong to the ranges of another node that shows
// some. The range of a node that shows them can have changed hands; if it went in parts, no node can have the addresses.
func (f *facts) home(at attachment) *limpetv1alpha1.IPReservation {
	holders := map[string]*corev1.Node{}
	for i := range f.held[at] {
		if n := f.nodes[f.held[at][i].Status.Node]; n != nil {
			holders[n.Name] = n
		}
	}
	for i := range f.held[at] {
		r := &f.held[at][i]
		if f.segments[r.Status.Node] == at.network { // no pod CIDR says whose range it is there
			return r
		}
		if owner, whole := ownerOf(r.Status.IPs, f.nodes, func(*corev1.Node) bool { return true }); owner != "" && owner != r.Status.Node && !whole {
			continue
		}
		if owner, _ := ownerOf(r.Status.IPs, holders, func(*corev1.Node) bool { return true }); owner == "" || owner == r.Status.Node {
			return r
		}
	}
	return nil
}

// addresses are all that the owner has, or had, in own mode: of no other network the NodeNetwork has ranges.
func (f *facts) addresses() (ips []string) {
	for at, b := range f.loans {
		if at.network == reservation.FollowNetwork {
			ips = append(ips, strings.Split(b.Spec.IPs, ",")...)
		}
	}
	for at, held := range f.held {
		for i := range held {
			if at.network == reservation.FollowNetwork {
				ips = append(ips, strings.Split(held[i].Status.IPs, ",")...)
			}
		}
	}
	return ips
}

func attachmentOf(b *limpetv1alpha1.BorrowedAddress) attachment {
	return attachment{b.Spec.Network, b.Spec.Interface}
}

// follows reports whether an IPReservation may show the address of a pod that follows: it has a pod, or no end.
func follows(r *limpetv1alpha1.IPReservation) bool {
	return r.Status.RetainMinutes >= int32(reservation.Forever.Minutes())
}

// likeliest orders IPReservations: the recorded addresses, what a pod has, and then what ended last. An agent may show
// addresses for any pod; it writes no record.
func (f *facts) likeliest(a, b limpetv1alpha1.IPReservation) int {
	first, second := sameAddresses(a.Status.IPs, f.recorded), sameAddresses(b.Status.IPs, f.recorded)
	switch {
	case first != second:
		if first {
			return -1
		}
		return 1
	case a.Status.Until == nil && b.Status.Until == nil:
		return strings.Compare(a.Status.Node, b.Status.Node)
	case a.Status.Until == nil:
		return -1
	case b.Status.Until == nil:
		return 1
	}
	return b.Status.Until.Compare(a.Status.Until.Time)
}

// podsOf returns the pods of an owner: the one of its name, or all that have the name as their owner.
func (l *Lender) podsOf(ctx context.Context, owner client.ObjectKey) ([]corev1.Pod, error) {
	if strings.Contains(owner.Name, "/") {
		return cluster.PodsOfOwner(ctx, l.Client, owner.Namespace, owner.Name)
	}
	var pod corev1.Pod
	err := l.Client.Get(ctx, owner, &pod, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get pod %s: %w", owner, err)
	case reservation.OwnerName("", pod.Annotations) != "": // it comes back under another name
		return nil, nil
	}
	return []corev1.Pod{pod}, nil
}

// recorded returns the addresses and the node that a PersistentPodState records for an owner; "" for none.
func (l *Lender) recorded(ctx context.Context, owner client.ObjectKey) (ips, node string, err error) {
	var states appsv1beta1.PersistentPodStateList
	if err := l.Client.List(ctx, &states, client.InNamespace(owner.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return "", "", fmt.Errorf("list PersistentPodStates: %w", err)
	}
	for i := range states.Items {
		if record := states.Items[i].Status.PodStates[owner.Name]; record.NodeName != "" {
			return record.IPs, record.NodeName, nil
		}
	}
	return "", "", nil
}

// over reports whether an owner that has no pod and no record does not return: no workload makes it again.
func (l *Lender) over(ctx context.Context, owner client.ObjectKey) (bool, error) {
	if parts := strings.Split(owner.Name, "/"); len(parts) == 4 {
		return l.Workloads.Gone(ctx, owner.Namespace, workload.Target{Group: parts[0], Kind: parts[1], Name: parts[2]})
	}
	wanted, err := l.Workloads.Wants(ctx, owner)
	return !wanted && err == nil, err
}

// waits reports whether a pod waits behind the gate.
func waits(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == loan.Gate })
}

// lacks reports whether a pod waits for its addresses: behind the gate, or on its node.
func lacks(pod *corev1.Pod) bool {
	return waits(pod) || pod.Spec.NodeName != "" && len(pod.Status.PodIPs) == 0
}

// waitsFor reports whether a pod waits: behind the gate, or on its node for another one.
func (f *facts) waitsFor(node string) bool {
	return f.pod != nil && (waits(f.pod) || node != "" && lacks(f.pod))
}

// goesFirst orders the living pods of an owner, of which one has its addresses: one with a node, and then the older one.
func goesFirst(a, b *corev1.Pod) bool {
	if (a.Spec.NodeName != "") != (b.Spec.NodeName != "") {
		return a.Spec.NodeName != ""
	}
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.UID < b.UID
}

// byName returns all nodes by their names. The ranges of a NodeNetwork matter where no pod CIDR has one of some addresses.
func (l *Lender) byName(ctx context.Context, all []*corev1.Node, ips []string) (map[string]*corev1.Node, error) {
	nodes := map[string]*corev1.Node{}
	for _, n := range all {
		nodes[n.Name] = n
	}
	for _, ip := range ips {
		if owner, _ := ownerOf(ip, nodes, func(*corev1.Node) bool { return true }); owner == "" {
			return cluster.WithRanges(ctx, l.Live, nodes)
		}
	}
	return nodes, nil
}

// ownerOf returns the node whose ranges have the first of some addresses, the oldest of several, and whether they have all. The
// next address counts where that node is not as wanted; "" for none.
func ownerOf(ips string, nodes map[string]*corev1.Node, wanted func(*corev1.Node) bool) (owner string, whole bool) {
	for ip := range strings.SplitSeq(ips, ",") {
		var oldest *corev1.Node
		for _, n := range nodes {
			if some, _ := fit.Owns(n, ip); some && (oldest == nil || older(n, oldest)) {
				oldest = n
			}
		}
		if oldest != nil && (owner == "" || wanted(oldest)) {
			owner = oldest.Name
			if _, whole = fit.Owns(oldest, ips); wanted(oldest) {
				break
			}
		}
	}
	return owner, whole
}

func older(a, b *corev1.Node) bool {
	if a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.Name < b.Name
	}
	return a.CreationTimestamp.Before(&b.CreationTimestamp)
}
