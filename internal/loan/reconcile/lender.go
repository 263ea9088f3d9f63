package reconcile

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fit"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// Reasons of the events that a loan makes.
const (
	ReasonLent    = "AddressLent"   // on the pod: its home cannot take it, and lends its address
	ReasonWaiting = "WaitsForHome"  // on the pod: home has not answered
	ReasonBack    = "AddressReturns" // on the pod: the address goes home
)

// missingRetry is how often an owner without a pod is looked at again: it may not return.
const missingRetry = 10 * time.Second

// waitNotice is how long a pod waits for an answer of a node before an event tells so.
const waitNotice = 10 * time.Second

// Lender decides for each owner whose address follows it which node may have the address. It runs on the leader.
type Lender struct {
	Client client.Client
	// Live reads from the API server what a death is concluded from.
	Live   client.Reader
	Clock  clock.PassiveClock
	Events events.EventRecorder

	waiting sync.Map // since when a pod waits, by its UID
}

// Reconcile takes the next step for one owner, and opens the gate of its pod where all its addresses allow.
func (l *Lender) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	f, err := l.gather(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("gather facts of owner %s: %w", req, err)
	}
	open, home, waitsFor, acted := true, "", "", false
	var errs []error
	for _, at := range f.attachments() {
		p, err := l.plan(ctx, f, at)
		if err == nil && p.Verb != loan.Nothing {
			acted = true
			err = l.act(ctx, f, at, p.Step)
		}
		errs = append(errs, err)
		open = open && err == nil && p.Open
		home = f.homeOf(at)
		if !p.Open {
			waitsFor = p.waitsFor
		}
	}
	if err := errors.Join(errs...); err != nil {
		return ctrl.Result{}, err
	}
	switch {
	case f.pod == nil && len(f.held)+len(f.loans) > 0:
		return ctrl.Result{RequeueAfter: missingRetry}, l.release(ctx, f)
	case f.pod == nil || !waits(f.pod):
		return ctrl.Result{}, nil
	case open:
		l.waiting.Delete(f.pod.UID)
		return ctrl.Result{}, client.IgnoreNotFound(l.open(ctx, f.pod, home))
	}
	return ctrl.Result{RequeueAfter: l.notice(f.pod, waitsFor, acted)}, nil
}

// attachments are the interfaces of an owner for which something is kept, in order.
func (f *facts) attachments() []attachment {
	all := slices.Collect(maps.Keys(f.loans))
	for at := range f.held {
		if f.loans[at] == nil {
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

// home is what shows the addresses that the owner had last, of those that belong to the ranges of their node.
func (f *facts) home(at attachment) *limpetv1alpha1.IPReservation {
	nodes := slices.Collect(maps.Values(f.nodes))
	for i := range f.held[at] {
		r := &f.held[at][i]
		if owner := ownerOf(r.Status.IPs, nodes); owner == "" || owner == r.Status.Node {
			return r
		}
	}
	return nil
}

// planned is a decision, and whom a pod waits for.
type planned struct {
	loan.Placing
	waitsFor string
}

// plan decides by the caches. What follows from a death is decided again by live reads.
func (l *Lender) plan(ctx context.Context, f *facts, at attachment) (planned, error) {
	nodes, err := cluster.Nodes(ctx, l.Client)
	if err != nil {
		return planned{}, err
	}
	in, deaths := l.input(ctx, f, at, nodes)
	p := loan.PlanPlace(in)
	if p.Verb != loan.Nothing && (*deaths || in.Owner == "") {
		if nodes, err = l.live(ctx, f, at); err != nil {
			return planned{}, err
		}
		in, _ = l.input(ctx, f, at, nodes)
		p = loan.PlanPlace(in)
	}
	out := planned{Placing: p}
	if in.Loan != nil {
		out.waitsFor = in.Loan.Home
		if in.Loan.Phase != loan.Asked && in.Loan.Borrower != "" {
			out.waitsFor = in.Loan.Borrower
		}
	}
	return out, nil
}

// live reads a loan, and after it all nodes, from the API server.
func (l *Lender) live(ctx context.Context, f *facts, at attachment) ([]*corev1.Node, error) {
	if b := f.loans[at]; b != nil {
		live := &limpetv1alpha1.BorrowedAddress{}
		err := l.Live.Get(ctx, client.ObjectKeyFromObject(b), live)
		switch {
		case apierrors.IsNotFound(err):
			live = nil
		case err != nil:
			return nil, fmt.Errorf("get BorrowedAddress %s: %w", b.Name, err)
		}
		f.loans[at] = live
	}
	return cluster.Nodes(ctx, l.Live)
}

// input makes what loan.PlanPlace decides from, and tells whether a death counted.
func (l *Lender) input(ctx context.Context, f *facts, at attachment, nodes []*corev1.Node) (loan.PlaceInput, *bool) {
	byName, deaths := map[string]*corev1.Node{}, new(bool)
	for _, n := range nodes {
		byName[n.Name] = n
	}
	in := loan.PlaceInput{
		Loan: loanOf(f.loans[at]), Home: f.homeOf(at), Over: f.over, Epoch: l.Clock.Now().UnixNano(),
		Takes: func(node string) bool { return f.pod != nil && l.takes(ctx, byName[node], f.pod) },
		Dead: func(node string) bool {
			dead := node != loan.Unknown && (byName[node] == nil || outOfService(byName[node]))
			*deaths = *deaths || dead
			return dead
		},
		Owner: ownerOf(f.ips(at), nodes),
	}
	if in.Owner == "" && byName[in.Home] != nil { // a range that is not in the Node
		in.Owner = in.Home
	}
	if f.pod != nil {
		in.Waits, in.Bound = waits(f.pod), f.pod.Spec.NodeName
		in.Shown = in.Bound != "" && shows(f.pod, f.ips(at))
	}
	return in, deaths
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

func loanOf(b *limpetv1alpha1.BorrowedAddress) *loan.Loan {
	if b == nil {
		return nil
	}
	s := b.Status
	return &loan.Loan{Home: s.Home, Borrower: s.Borrower, Phase: loan.Phase(s.Phase), Epoch: s.Epoch, GiveBack: s.GiveBack, Free: s.Free}
}

// act writes a step. The API server compares the version that was read.
func (l *Lender) act(ctx context.Context, f *facts, at attachment, s loan.Step) error {
	log.FromContext(ctx).Info("Loan", "owner", f.owner, "network", at.network, "addresses", f.ips(at), "reason", s.Reason, "phase", s.Loan.Phase, "home", s.Loan.Home, "borrower", s.Loan.Borrower)
	b := f.loans[at]
	switch {
	case s.Verb == loan.Remove:
		return client.IgnoreNotFound(l.Client.Delete(ctx, b, client.Preconditions{UID: &b.UID, ResourceVersion: &b.ResourceVersion}))
	case b == nil:
		b = &limpetv1alpha1.BorrowedAddress{
			Spec: limpetv1alpha1.BorrowedAddressSpec{Pod: f.owner.Name, Interface: at.ifName, Network: at.network, IPs: f.ips(at)},
		}
		b.Namespace, b.Name = f.owner.Namespace, b.Spec.ObjectName()
		b.Status = l.statusOf(s.Loan)
		if err := l.Client.Create(ctx, b); err != nil {
			return fmt.Errorf("create BorrowedAddress of %s: %w", f.owner, err)
		}
	default:
		b = b.DeepCopy()
		b.Status = l.statusOf(s.Loan)
		if err := l.Client.Update(ctx, b); err != nil {
			return fmt.Errorf("update BorrowedAddress %s: %w", b.Name, err)
		}
	}
	l.tell(f.pod, b, s)
	return nil
}

func (l *Lender) statusOf(to loan.Loan) limpetv1alpha1.BorrowedAddressStatus {
	now := metav1.NewTime(l.Clock.Now().Truncate(time.Second))
	return limpetv1alpha1.BorrowedAddressStatus{
		Home: to.Home, Borrower: to.Borrower, Phase: limpetv1alpha1.LoanPhase(to.Phase), Epoch: to.Epoch, GiveBack: to.GiveBack, Free: to.Free, Since: &now,
	}
}

// tell makes an event of a step that a user should know.
func (l *Lender) tell(pod *corev1.Pod, b *limpetv1alpha1.BorrowedAddress, s loan.Step) {
	if pod == nil {
		return
	}
	switch {
	case s.Loan.Phase == loan.Asked:
		l.Events.Eventf(pod, b, corev1.EventTypeNormal, ReasonLent, "Lend", "node %s is asked to lend %s: %s", s.Loan.Home, b.Spec.IPs, s.Reason)
	case s.Loan.Phase == loan.Ending:
		l.Events.Eventf(pod, b, corev1.EventTypeNormal, ReasonBack, "Return", "%s goes back to node %s: %s", b.Spec.IPs, s.Loan.Home, s.Reason)
	}
}

// notice tells once why a pod waits, and returns when to look again.
func (l *Lender) notice(pod *corev1.Pod, node string, acted bool) time.Duration {
	now := l.Clock.Now()
	since, _ := l.waiting.LoadOrStore(pod.UID, wait{since: now})
	w, _ := since.(wait)
	if waited := now.Sub(w.since); waited < waitNotice || acted || w.told {
		return waitNotice
	}
	l.waiting.Store(pod.UID, wait{since: w.since, told: true})
	l.Events.Eventf(pod, nil, corev1.EventTypeWarning, ReasonWaiting, "Wait", "node %s has not answered about the address of the pod; remedy: bring the node back, or if it is dead, taint it %s: kubectl taint node %s %s:NoExecute",
		node, corev1.TaintNodeOutOfService, node, corev1.TaintNodeOutOfService)
	return waitNotice
}

type wait struct {
	since time.Time
	told  bool
}
