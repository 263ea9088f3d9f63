package plan

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// LoansInput is what the agent knows of loans.
type LoansInput struct {
	Node string
	// Network is the name of the network in which addresses follow.
	Network string
	// Owns are the ranges of this node. Loans of addresses that no range has are those of other nodes.
	Owns []netip.Prefix
	// Loans are those of the cluster, as the cache has them.
	Loans []*v1alpha1.BorrowedAddress
	// State is what the state has of the network, and BootID the boot of the node.
	State  Network
	BootID string
	// Shared tells that no Node says whose the ranges are, as on a segment that nodes share: the configuration of each node does.
	Shared bool
	// Lacks reports whether a Node exists whose ranges have none of some addresses; nil for none.
	Lacks func(node string, addrs []netip.Addr) bool
	// Waits reports whether an ADD waits for the record of an owner.
	Waits func(reservation.Owner) bool
}

// LoanCase is an owner with whose addresses this node has to do: there is a loan, or the state has a record.
type LoanCase struct {
	Owner reservation.Owner
	// Object is the loan; nil without one.
	Object *v1alpha1.BorrowedAddress
	// Addresses are those of the loan, or else those that the state has for the owner.
	Addresses []netip.Addr
}

// LoanCases returns the owners for which loan.PlanNode may have a step: those with a loan from or to this node, and those
// with a record that says lent or guest, or that the agent has not confirmed since the node started.
func LoanCases(in LoansInput) []LoanCase {
	records := in.records()
	var cases []LoanCase
	for _, o := range in.Loans {
		owner, addrs, valid := LoanOwner(o, in.Network)
		has, recorded := records[owner]
		some, _ := in.owns(addrs)
		concerns := recorded || some || o.Status.Home == in.Node || o.Status.Borrower == in.Node
		if valid && concerns && o.Name == o.Spec.ObjectName() { // one of another name counts for nothing: the owner could have two
			if reservation.SameAddresses(has, addrs) { // else it is about others
				delete(records, owner)
			}
			cases = append(cases, LoanCase{owner, o, addrs})
		}
	}
	for owner, addrs := range records {
		cases = append(cases, LoanCase{Owner: owner, Addresses: addrs})
	}
	return cases
}

// records returns the addresses of the owners of which the state has something that a loan may change.
func (in LoansInput) records() map[reservation.Owner][]netip.Addr {
	all := map[reservation.Owner][]netip.Addr{}
	asked := func(o reservation.Owner, m reservation.Mode, boot string) bool { // of an earlier life that did not follow, the ADD asks
		return boot != in.BootID && (m == reservation.Follow || in.Waits != nil && in.Waits(o))
	}
	for _, a := range in.State.Attachments {
		if a.Owner.Named() && (a.Guest != 0 || asked(a.Owner, a.Mode, a.Since.BootID)) {
			all[a.Owner] = a.Addresses
		}
	}
	for _, r := range in.State.Reservations {
		if r.OnLoan() || asked(r.Owner, r.Mode, r.BootID) {
			all[r.Owner] = r.Addresses
		}
	}
	return all
}

// owns reports whether the ranges of this node have some of several addresses, and whether they have all.
func (in LoansInput) owns(addrs []netip.Addr) (some, all bool) {
	some = slices.ContainsFunc(addrs, func(a netip.Addr) bool { return within(a, in.Owns) })
	return some, some && !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !within(a, in.Owns) })
}

// Lacks reports whether the ranges of a node, as its Node and the NodeNetwork say, have none of some addresses. One whose Node
// has no pod CIDR yet lacks nothing.
func Lacks(n corev1.Node, ranges []v1alpha1.NodeRange, addrs []netip.Addr) bool {
	claims, _ := nodeClaims([]corev1.Node{n})
	has := len(claims) == 0
	for _, c := range slices.Concat(claims, rangeClaims(ranges)) {
		has = has || c.node == n.Name && slices.ContainsFunc(addrs, c.prefix.Contains)
	}
	return !has
}

func within(a netip.Addr, ranges []netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) })
}

// LoanOwner returns the owner and the addresses of a loan. One of another network counts for nothing.
func LoanOwner(o *v1alpha1.BorrowedAddress, network string) (owner reservation.Owner, addrs []netip.Addr, valid bool) {
	if o.Spec.Network != network {
		return owner, nil, false
	}
	for text := range strings.SplitSeq(o.Spec.IPs, ",") {
		a, err := netip.ParseAddr(text)
		if err != nil || a.Zone() != "" {
			return owner, nil, false
		}
		addrs = append(addrs, a)
	}
	return reservation.Owner{Network: o.Spec.Network, Namespace: o.Namespace, Pod: o.Spec.Pod, IfName: o.Spec.Interface}, addrs, true
}

// Input returns what the agent knows of a case, apart from what the state says. The parameter bound says that a pod of the
// owner is on this node.
func (in LoansInput) Input(c LoanCase, bound, live bool) loan.NodeInput {
	out := loan.NodeInput{Node: in.Node, Loan: LoanOf(c.Object), Live: live, Bound: bound}
	out.Owns, out.Whole = in.owns(c.Addresses)
	out.Foreign = out.Loan != nil && in.Lacks != nil && !in.Shared && in.Lacks(out.Loan.Home, c.Addresses)
	if in.Shared && out.Loan != nil && out.Loan.Home != in.Node { // the controller never sees that the range changed hands
		out.Whole, out.Foreign = false, out.Owns
	}
	return out
}

// Untaken reports whether a step gives back what the controller lets this node borrow, because no pod of the owner is
// there. The controller has seen the pod, and the list of pods may be older: such a step waits.
func Untaken(in loan.NodeInput, s loan.Step) bool {
	l := in.Loan
	return s.Verb == loan.Put && l != nil && l.Borrower == in.Node && l.Phase == loan.Lent && !l.GiveBack && s.Loan.Borrower == "" && s.Loan.Phase == loan.Lent
}

// HasPod returns a function that reports whether a pod of the owner, which is not ending, is on the node. The runtime does not
// know a pod before its first ADD has ended: there the word of the controller counts, until it asks for the addresses.
func HasPod(node string, list PodList) func(LoanCase) bool {
	left := PodList{Items: slices.DeleteFunc(slices.Clone(list.Items), func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })}
	names := left.names()
	return func(c LoanCase) bool {
		l := LoanOf(c.Object)
		told := list.FromCreation && l != nil && l.Borrower == node && l.Phase == loan.Lent && !l.GiveBack
		return told || names[c.Owner.String()]
	}
}

// LoanOf returns the loan that an object shows; nil without one.
func LoanOf(o *v1alpha1.BorrowedAddress) *loan.Loan {
	if o == nil {
		return nil
	}
	s := o.Status
	return &loan.Loan{Home: s.Home, Borrower: s.Borrower, Phase: loan.Phase(s.Phase), Epoch: s.Epoch, GiveBack: s.GiveBack, Free: s.Free}
}

// ShowLoan returns an object that shows a loan, in the place of another one or as a new one.
func ShowLoan(c LoanCase, l loan.Loan, now metav1.Time) *v1alpha1.BorrowedAddress {
	o := &v1alpha1.BorrowedAddress{}
	if c.Object != nil {
		o = c.Object.DeepCopy()
	} else {
		ips := make([]string, len(c.Addresses))
		for i, a := range c.Addresses {
			ips[i] = a.String()
		}
		o.Spec = v1alpha1.BorrowedAddressSpec{Pod: c.Owner.Pod, Interface: c.Owner.IfName, Network: c.Owner.Network, IPs: strings.Join(ips, ",")}
		o.Namespace, o.Name = c.Owner.Namespace, o.Spec.ObjectName()
	}
	was := o.Status
	o.Status = v1alpha1.BorrowedAddressStatus{
		Home: l.Home, Borrower: l.Borrower, Phase: v1alpha1.LoanPhase(l.Phase), Epoch: l.Epoch, GiveBack: l.GiveBack, Free: l.Free, Since: was.Since,
	}
	if was.Phase != o.Status.Phase || was.Borrower != o.Status.Borrower || was.Since == nil {
		o.Status.Since = &now
	}
	return o
}
