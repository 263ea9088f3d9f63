package reconcile

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// addGone adds what the record of a pod says where its node is gone, and took along what showed the addresses. The pod waits,
// so that it follows.
func (l *Lender) addGone(ctx context.Context, f *facts) error {
	if !f.unshown() || len(f.loans) > 0 {
		return nil
	}
	err := l.Live.Get(ctx, client.ObjectKey{Name: f.recordedOn}, &corev1.Node{})
	if !apierrors.IsNotFound(err) {
		return client.IgnoreNotFound(err)
	}
	networks, err := l.networks(ctx, f)
	if err != nil || len(networks) == 0 { // addresses do not follow here
		return err
	}
	if len(networks) > 1 {
		f.unsure = networks
		return nil
	}
	at := attachment{networks[0], "eth0"}
	if free, err := l.unlent(ctx, f.owner, f.recorded); err != nil || !free {
		return err
	}
	r := limpetv1alpha1.IPReservation{Status: limpetv1alpha1.IPReservationStatus{Node: f.recordedOn, IPs: f.recorded, Network: at.network, Interface: at.ifName}}
	f.held[at] = []limpetv1alpha1.IPReservation{r}
	return nil
}

// unshown reports whether a pod waits that has a record, and whose addresses no node shows.
func (f *facts) unshown() bool {
	return f.pod != nil && waits(f.pod) && f.recorded != "" && len(f.all) == 0
}

// networks returns the networks of which recorded addresses may be: those in which pods follow, or a node shows that they do. Below
// flannel nodes show that only by their pods, of which there may be none. IPv6 does not follow there. Of several networks those are
// left that have the nearest addresses: each has a subnet of its own.
func (l *Lender) networks(ctx context.Context, f *facts) ([]string, error) {
	pools, err := cluster.Pools(ctx, l.Client)
	if err != nil {
		return nil, err
	}
	var all limpetv1alpha1.IPReservationList
	if err := l.Client.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list IPReservations: %w", err)
	}
	known, flannel := map[string][]string{}, map[string][]string{}
	note := func(to map[string][]string, network string, of ...string) { to[network] = append(to[network], of...) }
	for i := range all.Items {
		if r := &all.Items[i]; follows(r) {
			note(known, r.Status.Network, strings.Split(r.Status.IPs, ",")...)
		}
	}
	for i := range pools {
		s, n := pools[i].Status, f.nodes[pools[i].Status.Node]
		switch {
		case s.SharedNetwork:
			note(known, s.Network, s.Ranges...)
		case n == nil:
		case s.Network == reservation.FollowNetwork:
			note(known, s.Network, n.Spec.PodCIDRs...)
		case loan.Flannel(n.Annotations) != "" && !strings.Contains(f.recorded, ":"):
			note(flannel, s.Network, n.Spec.PodCIDRs...)
		}
	}
	if len(known) == 0 {
		known = flannel
	}
	near, most := map[string]int{}, 0
	if len(known) > 1 { // else there is nothing to compare
		for network, of := range known {
			near[network] = nearest(f.recorded, of)
			most = max(most, near[network])
		}
	}
	maps.DeleteFunc(known, func(network string, _ []string) bool { return near[network] < most })
	return slices.Sorted(maps.Keys(known)), nil
}

// nearest returns how many of their first bits the first of some addresses and the nearest of others have in common. The others may
// be the beginnings of ranges.
func nearest(ips string, others []string) (most int) {
	a := addresses(ips)[0].As16()
	for _, text := range others {
		other, err := netip.ParseAddr(text[:strings.IndexAny(text+"-", "-/")])
		b, same := other.As16(), 0
		for err == nil && same < len(a)*8 && (a[same/8]^b[same/8])>>(7-same%8)&1 == 0 {
			same++
		}
		most = max(most, same)
	}
	return most
}

// unlent reports whether no other owner has a loan with one of some addresses, and lets none get one: a record can be old, or a
// user's.
func (l *Lender) unlent(ctx context.Context, owner client.ObjectKey, ips string) (free bool, err error) {
	for ip := range strings.SplitSeq(ips, ",") { // the cache may lack a loan that this process has just made
		by, known := l.recordedFor.LoadOrStore(ip, owner)
		if !known {
			defer func() {
				if !free {
					l.recordedFor.Delete(ip)
				}
			}()
		}
		if by != owner {
			return false, nil
		}
	}
	var loans limpetv1alpha1.BorrowedAddressList // read now: what is forgotten is in the cache
	if err := l.Client.List(ctx, &loans, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list BorrowedAddresses: %w", err)
	}
	return !slices.ContainsFunc(loans.Items, func(b limpetv1alpha1.BorrowedAddress) bool {
		return sharesAddress(b.Spec.IPs, ips) && (b.Namespace != owner.Namespace || b.Spec.Pod != owner.Name)
	}), nil
}

// forget drops what an owner lends by its record, once the cache has the loan, or the owner makes none any more.
func (l *Lender) forget(ctx context.Context, f *facts) error {
	var addrs []any
	l.recordedFor.Range(func(ip, owner any) bool {
		if owner == f.owner {
			addrs = append(addrs, ip)
		}
		return true
	})
	if len(addrs) > 0 && len(f.loans) == 0 {
		if f.pod != nil && waits(f.pod) {
			return nil
		}
		var made limpetv1alpha1.BorrowedAddressList
		if err := l.Live.List(ctx, &made, client.InNamespace(f.owner.Namespace)); err != nil {
			return fmt.Errorf("list BorrowedAddresses of %s: %w", f.owner.Namespace, err)
		}
		if slices.ContainsFunc(made.Items, func(b limpetv1alpha1.BorrowedAddress) bool { return b.Spec.Pod == f.owner.Name }) {
			return nil
		}
	}
	for _, ip := range addrs {
		l.recordedFor.CompareAndDelete(ip, f.owner)
	}
	return nil
}

func sharesAddress(a, b string) bool {
	others := strings.Split(b, ",")
	return slices.ContainsFunc(strings.Split(a, ","), func(ip string) bool { return slices.Contains(others, ip) })
}

// sameAddresses reports whether two lists have the same addresses, in whatever order and form.
func sameAddresses(a, b string) bool {
	return reservation.SameAddresses(addresses(a), addresses(b))
}

// addresses are those of a list; a text that is none counts as one that is not valid.
func addresses(ips string) (all []netip.Addr) {
	for ip := range strings.SplitSeq(ips, ",") {
		a, _ := netip.ParseAddr(ip)
		all = append(all, a)
	}
	return all
}
