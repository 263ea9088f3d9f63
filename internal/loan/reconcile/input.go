package reconcile

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/platform/workload"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// planned is a decision, and whom a pod waits for. Beside is a node that has the addresses in its ranges, too.
type planned struct {
	loan.Placing
	waitsFor, beside string
}

// plan decides by the caches. What follows from a death is decided again by live reads.
func (l *Lender) plan(ctx context.Context, f *facts, at attachment) (planned, error) {
	in, deaths := l.input(ctx, f, at, f.nodes)
	p := loan.PlanPlace(in)
	if p.Verb != loan.Nothing && (*deaths || in.Owner == "") {
		nodes, err := l.live(ctx, f, at)
		if err != nil {
			return planned{}, err
		}
		in, _ = l.input(ctx, f, at, nodes)
		p = loan.PlanPlace(in)
	}
	out := planned{Placing: p, waitsFor: in.Home}
	if p.Begins(in.Loan) && f.segments[in.Home] == at.network {
		var err error
		if out.beside, err = l.ownerBeside(ctx, f, at); out.beside != "" || err != nil {
			out.Placing = loan.Placing{}
		}
		return out, err
	}
	if in.Loan != nil {
		out.waitsFor = in.Loan.Home
		if in.Loan.Phase != loan.Asked && in.Loan.Borrower != "" && in.Loan.Borrower != loan.Unknown {
			out.waitsFor = in.Loan.Borrower
		}
		if in.Bound != "" && in.Loan.Borrower == in.Bound { // its agent says what is missing
			out.waitsFor = ""
		}
	}
	return out, nil
}

// live reads a loan, and after it all nodes, from the API server. One read of all nodes at a time: a node that is gone can concern
// many owners.
func (l *Lender) live(ctx context.Context, f *facts, at attachment) (map[string]*corev1.Node, error) {
	if b := f.loans[at]; b != nil {
		live := &limpetv1alpha1.BorrowedAddress{}
		err := l.Live.Get(ctx, client.ObjectKeyFromObject(b), live)
		switch {
		case apierrors.IsNotFound(err):
			delete(f.loans, at)
		case err != nil:
			return nil, fmt.Errorf("get BorrowedAddress %s: %w", b.Name, err)
		default:
			f.loans[at] = live
		}
	}
	l.reading.Lock()
	defer l.reading.Unlock()
	nodes, err := cluster.LiveNodes(ctx, l.Live, nodeNeed)
	if err != nil {
		return nil, err
	}
	return l.byName(ctx, nodes, f.addresses())
}

// input makes what loan.PlanPlace decides from, and reports whether a death counted.
func (l *Lender) input(ctx context.Context, f *facts, at attachment, nodes map[string]*corev1.Node) (loan.PlaceInput, *bool) {
	deaths := new(bool)
	in := loan.PlaceInput{
		Loan: loanOf(f.loans[at]), Home: f.homeOf(at), Over: f.over || f.pod == nil && (f.givenUp[at] || deleted(f.loans[at])) && f.loans[at] != nil, Epoch: l.Clock.Now().UnixNano(),
		Takes: func(node string) bool { return f.pod != nil && l.takes(ctx, nodes[node], f.pod) },
		Dead: func(node string) bool {
			dead := node != loan.Unknown && (nodes[node] == nil || outOfService(nodes[node]))
			*deaths = *deaths || dead
			return dead
		},
	}
	*deaths = nodes[in.Home] == nil
	f.own(&in, at, nodes)
	if f.pod != nil {
		in.Waits = waits(f.pod)
		if node := f.pod.Spec.NodeName; f.reaches(at.network, nodes[in.Home], nodes[node]) {
			in.Bound = node
		}
		in.Shown = in.Bound != "" && workload.Shows(f.pod, f.ips(at))
	}
	return in, deaths
}

// own adds whose ranges have the addresses, and whether a node keeps them.
func (f *facts) own(in *loan.PlaceInput, at attachment, nodes map[string]*corev1.Node) {
	home, onSegment := nodes[in.Home], f.segments[in.Home] == at.network
	if !onSegment { // else no pod CIDR says whose range it is
		in.Owner, in.Whole = ownerOf(f.ips(at), nodes, func(n *corev1.Node) bool { return !outOfService(n) })
	}
	in.Kept = slices.ContainsFunc(f.held[at], func(r limpetv1alpha1.IPReservation) bool { // one of another range puts no loan back
		return sharesAddress(r.Status.IPs, f.ips(at)) && (onSegment || !foreign(nodes[r.Status.Node], f.ips(at)))
	})
	if home != nil {
		in.Foreign = foreign(home, f.ips(at))
		if onSegment || in.Owner == "" && !in.Foreign { // a range that is not in the Node
			in.Owner, in.Whole = in.Home, true
		}
	}
	if beside := f.owners[at]; beside != "" && in.Loan != nil && in.Loan.Borrower == loan.Unknown && in.Owner == in.Loan.Home { // a stolen token could write the loan
		in.Owner, in.Foreign = beside, true
	}
}

// foreign reports whether a node exists, and its ranges have none of some addresses.
func foreign(n *corev1.Node, ips string) bool {
	if n == nil {
		return false
	}
	some, _ := fit.Owns(n, ips)
	return !some && len(n.Spec.PodCIDRs) > 0
}

// ips are the addresses of an interface of the owner.
func (f *facts) ips(at attachment) string {
	if b := f.loans[at]; b != nil {
		return b.Spec.IPs
	}
	if r := f.home(at); r != nil {
		return r.Status.IPs
	}
	return ""
}

// reaches reports whether a node can borrow an address of another one in a network. Below flannel both have the same backend;
// that of a home that is gone is not known. On a segment that nodes share, both have the network.
func (f *facts) reaches(network string, home, borrower *corev1.Node) bool {
	if network == reservation.FollowNetwork || borrower == nil || borrower == home {
		return true
	}
	if segment := f.segments[borrower.Name]; segment != "" {
		return segment == network
	}
	backend := loan.Flannel(borrower.Annotations)
	return backend != "" && (home == nil || f.segments[home.Name] == "" && loan.Flannel(home.Annotations) == backend)
}

// waitsInVain reports whether the pod waits on a node that is reached in another way than home, and so never borrows: it takes
// another address there. A backend can be unknown for a moment.
func (f *facts) waitsInVain() bool {
	if f.pod == nil || !lacks(f.pod) || f.pod.Annotations[reservation.HomeAnnotation] == "" {
		return false
	}
	known := func(n *corev1.Node) bool {
		return n != nil && (f.segments[n.Name] != "" || loan.Flannel(n.Annotations) != "")
	}
	node := f.nodes[f.pod.Spec.NodeName]
	return known(node) && slices.ContainsFunc(f.attachments(), func(at attachment) bool {
		home := f.nodes[f.homeOf(at)]
		return (known(home) || f.segments[node.Name] != "") && !f.reaches(at.network, home, node)
	})
}

// outOfService reports whether a person said that a node is dead.
func outOfService(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}

// takes reports whether a node can take a pod now.
func (l *Lender) takes(ctx context.Context, n *corev1.Node, pod *corev1.Pod) bool {
	if n == nil || n.DeletionTimestamp != nil || !fit.Ready(n) || !fit.Admits(pod, n) {
		return false
	}
	if reason, _ := fit.Obstacle(n, pod); reason != "" {
		return false
	}
	others, err := cluster.PodsOn(ctx, l.Client, n.Name)
	if err != nil {
		return false
	}
	others = slices.DeleteFunc(slices.Clone(others), func(p corev1.Pod) bool { return p.UID == pod.UID })
	return fit.Shortage(n, pod, others) == ""
}

// deleted reports whether a loan is deleted, by a person or with its namespace: no pod of the owner comes any more.
func deleted(b *limpetv1alpha1.BorrowedAddress) bool { return b != nil && b.DeletionTimestamp != nil }

func loanOf(b *limpetv1alpha1.BorrowedAddress) *loan.Loan {
	if b == nil {
		return nil
	}
	s := b.Status
	return &loan.Loan{Home: s.Home, Borrower: s.Borrower, Phase: loan.Phase(s.Phase), Epoch: s.Epoch, GiveBack: s.GiveBack, Free: s.Free}
}
