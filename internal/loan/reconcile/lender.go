package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Reasons of the events that a loan makes.
const (
	ReasonLent    = "AddressLent"    // on the pod: its home cannot take it, and lends its address
	ReasonWaiting = "WaitsForHome"   // on the pod: home has not answered
	ReasonBack    = "AddressReturns" // on the pod: the address goes home
	ReasonStays   = "AddressStays"   // on the pod: it asks that its address follows it, which the network cannot
)

const (
	// missing is the default of Lender.Missing. A workload that is replaced makes its pods again in a moment.
	missing = 30 * time.Second
	// shownLate is how long a pod that has a record waits until a node shows its addresses, and shownRetry how often it is looked
	// at meanwhile.
	shownLate, shownRetry = 10 * time.Second, time.Second
)

// missingRetry is how soon an owner without a pod is looked at again: it may not return. missingLate is how late, after a long
// time without one.
const missingRetry, missingLate = 10 * time.Second, 10 * time.Minute

// waitNotice is how long a pod waits for an answer of a node before an event tells so.
const waitNotice = 10 * time.Second

// stayNotice is how long no node shows an address that a pod has before an event says that it does not follow: an agent can be late.
const stayNotice = 2 * time.Minute

// Lender decides for each owner whose address follows it which node may have the address. It runs on the leader.
type Lender struct {
	Client client.Client
	// Live reads from the API server what a death is concluded from.
	Live   client.Reader
	Clock  clock.PassiveClock
	Events events.EventRecorder
	// Workloads tells which owners return.
	Workloads *workloads.Reader

	// Missing is how long an owner must have no pod until it may count as one that does not return; 0 for half a minute.
	Missing time.Duration

	reading     sync.Mutex
	waiting     sync.Map // since when an owner waits, or has no pod, by its key
	opened      sync.Map // the pods whose gate was opened, and since when they have addresses, by the owner
	recordedFor sync.Map // the owners that lend what their record says, by the address, until the cache has the loan
}

// Reconcile takes the next step for one owner, and opens the gate of its pod where all its addresses allow.
func (l *Lender) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	f, err := l.gather(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("gather facts of owner %s: %w", req, err)
	}
	w := l.stay(f)
	waited := l.Clock.Now().Sub(w.since)
	f.over = f.over && waited >= cmp.Or(l.Missing, missing)
	if waited < shownLate && f.unshown() {
		return ctrl.Result{RequeueAfter: shownRetry}, nil // its node shows the addresses in a moment
	}
	if err := errors.Join(l.addGone(ctx, f), l.addSegments(ctx, f)); err != nil {
		return ctrl.Result{}, fmt.Errorf("gather facts of owner %s: %w", req, err)
	}
	open, home, waitsFor, beside, acted := len(f.unsure) == 0, "", "", "", false
	var errs []error
	for _, at := range f.attachments() {
		p, err := l.plan(ctx, f, at)
		if err == nil && (p.Verb != loan.Nothing || keepable(f.loans[at])) {
			acted = true
			err = l.act(ctx, f, at, p.Step)
		}
		errs = append(errs, err)
		open = open && err == nil && p.Open
		home = f.homeOf(at)
		if !p.Open {
			waitsFor, beside = p.waitsFor, p.beside
		}
	}
	if err := errors.Join(errs...); err != nil {
		return ctrl.Result{}, err
	}
	again := l.stays(f)
	switch {
	case f.waitsInVain():
		return ctrl.Result{}, client.IgnoreNotFound(l.open(ctx, f.pod, ""))
	case f.pod == nil && len(f.held)+len(f.loans) > 0:
		return ctrl.Result{RequeueAfter: min(max(missingRetry, waited/4), missingLate)}, l.release(ctx, f)
	case !f.waitsFor(waitsFor):
		return ctrl.Result{RequeueAfter: again}, nil
	case waits(f.pod) && open:
		l.opened.Store(f.owner, wait{pod: f.pod.UID})
		return ctrl.Result{}, client.IgnoreNotFound(l.open(ctx, f.pod, home))
	}
	if !acted {
		l.notice(f, w, waitsFor, beside)
	}
	return ctrl.Result{RequeueAfter: waitNotice}, nil
}

// act writes a step. The API server compares the version that was read.
func (l *Lender) act(ctx context.Context, f *facts, at attachment, s loan.Step) error {
	log.FromContext(ctx).Info("Loan", "owner", f.owner, "network", at.network, "addresses", f.ips(at), "reason", s.Reason, "phase", s.Loan.Phase, "home", s.Loan.Home, "borrower", s.Loan.Borrower)
	b := f.loans[at]
	switch {
	case s.Verb == loan.Remove:
		return l.remove(ctx, b)
	case b == nil:
		b = &limpetv1alpha1.BorrowedAddress{
			Spec: limpetv1alpha1.BorrowedAddressSpec{Pod: f.owner.Name, Interface: at.ifName, Network: at.network, IPs: f.ips(at)},
		}
		b.Namespace, b.Name = f.owner.Namespace, b.Spec.ObjectName()
		b.Status, b.Finalizers = l.statusOf(s.Loan), []string{loan.Finalizer}
		if err := l.Client.Create(ctx, b); err != nil {
			return fmt.Errorf("create BorrowedAddress of %s: %w", f.owner, err)
		}
	default:
		b = b.DeepCopy()
		if s.Verb == loan.Put {
			b.Status = l.statusOf(s.Loan)
		}
		if b.DeletionTimestamp == nil { // one that home has put back has none
			controllerutil.AddFinalizer(b, loan.Finalizer)
		}
		if err := l.Client.Update(ctx, b); err != nil {
			return fmt.Errorf("update BorrowedAddress %s: %w", b.Name, err)
		}
	}
	l.tell(f.pod, b, s)
	return nil
}

// remove removes a loan, if it is still the one that was read.
func (l *Lender) remove(ctx context.Context, b *limpetv1alpha1.BorrowedAddress) error {
	if b = b.DeepCopy(); controllerutil.RemoveFinalizer(b, loan.Finalizer) {
		if err := l.Client.Update(ctx, b); err != nil || b.DeletionTimestamp != nil {
			return client.IgnoreNotFound(err)
		}
	}
	return client.IgnoreNotFound(l.Client.Delete(ctx, b, client.Preconditions{UID: &b.UID, ResourceVersion: &b.ResourceVersion}))
}

// keepable reports whether a loan lacks the finalizer. From one that has ended, home has removed it.
func keepable(b *limpetv1alpha1.BorrowedAddress) bool {
	return b != nil && b.DeletionTimestamp == nil && loan.Phase(b.Status.Phase) != loan.Ended && !controllerutil.ContainsFinalizer(b, loan.Finalizer)
}

func (l *Lender) statusOf(to loan.Loan) limpetv1alpha1.BorrowedAddressStatus {
	now := metav1.NewTime(l.Clock.Now().Truncate(time.Second))
	return limpetv1alpha1.BorrowedAddressStatus{
		Home: to.Home, Borrower: to.Borrower, Phase: limpetv1alpha1.LoanPhase(to.Phase), Epoch: to.Epoch, GiveBack: to.GiveBack, Free: to.Free, Since: &now,
	}
}

// tell makes an event of a step that a user should know.
func (l *Lender) tell(pod *corev1.Pod, b *limpetv1alpha1.BorrowedAddress, s loan.Step) {
	switch {
	case pod == nil, s.Verb != loan.Put:
	case s.Loan.Phase == loan.Asked:
		l.Events.Eventf(pod, b, corev1.EventTypeNormal, ReasonLent, "Lend", "node %s is asked to lend %s: %s", s.Loan.Home, b.Spec.IPs, s.Reason)
	case s.Loan.Phase == loan.Ending:
		l.Events.Eventf(pod, b, corev1.EventTypeNormal, ReasonBack, "Return", "%s goes back to node %s: %s", b.Spec.IPs, s.Loan.Home, s.Reason)
	}
}

// stay returns since when an owner has no pod, or one that waits.
func (l *Lender) stay(f *facts) wait {
	if f.pod != nil && !lacks(f.pod) {
		l.waiting.Delete(f.owner)
		return wait{}
	}
	var pod types.UID
	if f.pod != nil {
		pod = f.pod.UID
	}
	known, _ := l.waiting.Load(f.owner)
	w, ok := known.(wait)
	if !ok || w.pod != pod {
		w = wait{pod: pod, since: l.Clock.Now()}
		l.waiting.Store(f.owner, w)
	}
	if f.pod == nil && len(f.held)+len(f.loans) == 0 {
		l.waiting.Delete(f.owner)
	}
	return w
}

// notice tells once why a pod waits, when it has waited for a while.
func (l *Lender) notice(f *facts, w wait, node, beside string) {
	if l.Clock.Now().Sub(w.since) < waitNotice || w.told {
		return
	}
	w.told = true
	l.waiting.Store(f.owner, w)
	another := fmt.Sprintf("let it take another one: kubectl -n %s patch pod %s -p '{\"spec\":{\"schedulingGates\":[{\"$patch\":\"delete\",\"name\":\"%s\"}]}}'", f.pod.Namespace, f.pod.Name, loan.Gate)
	if len(f.unsure) > 0 {
		l.Events.Eventf(f.pod, nil, corev1.EventTypeWarning, ReasonWaiting, "Wait", "node %s is gone, and the address of the pod may be of networks %s; remedy: %s", f.recordedOn, strings.Join(f.unsure, ", "), another)
		return
	}
	if beside != "" {
		remedy := "take it from the ranges of one of them"
		if f.nodes[node] == nil {
			remedy = another
		}
		l.Events.Eventf(f.pod, nil, corev1.EventTypeWarning, ReasonWaiting, "Wait", "the address of the pod is in the ranges of nodes %s and %s: neither lends it; remedy: %s", node, beside, remedy)
		return
	}
	for _, b := range f.loans {
		if b.Status.Borrower == loan.Unknown {
			l.Events.Eventf(f.pod, nil, corev1.EventTypeWarning, ReasonWaiting, "Wait", "the loan of the address was lost, and no node is known to have it; remedy: if no pod has it, say so: kubectl -n %s patch borrowedaddress %s --type=merge -p '{\"status\":{\"borrower\":null,\"epoch\":%d}}'",
				b.Namespace, b.Name, b.Status.Epoch+1)
			return
		}
	}
	l.Events.Eventf(f.pod, nil, corev1.EventTypeWarning, ReasonWaiting, "Wait", "node %s has not answered about the address of the pod; remedy: bring the node back; if it is dead, %s", node, fit.SayDead(node))
}

// stays tells once that the addresses of a pod do not follow it, when it has had them for a while: an agent may just learn its
// network.
func (l *Lender) stays(f *facts) (again time.Duration) {
	if f.pod == nil {
		l.opened.Delete(f.owner)
		return 0
	}
	known, _ := l.opened.Load(f.owner)
	w, _ := known.(wait)
	if f.pod.UID != w.pod || len(f.pod.Status.PodIPs) == 0 {
		return 0
	}
	if w.since.IsZero() {
		w.since = l.Clock.Now()
		l.opened.Store(f.owner, w)
	}
	has, minutes := l.Clock.Now().Sub(w.since), f.minutes()
	switch {
	case has < waitNotice:
		return waitNotice - has
	case has < stayNotice && len(minutes) == 0:
		return waitNotice
	}
	l.opened.Delete(f.owner)
	if why := reservation.WhyPreferred(f.pod.Spec.NodeName, minutes); why != "" {
		l.Events.Eventf(f.pod, nil, corev1.EventTypeWarning, ReasonStays, "Follow", "follow means preferred for this pod: %s", why)
	}
	return 0
}

// minutes are for how long the addresses that the pod has are kept, by network.
func (f *facts) minutes() map[string]int32 {
	minutes := map[string]int32{}
	for _, r := range f.all {
		if r.Status.Node == f.pod.Spec.NodeName && workload.Shows(f.pod, r.Status.IPs) {
			minutes[r.Status.Network] = r.Status.RetainMinutes
		}
	}
	return minutes
}

// wait is since when an owner has no pod, or this one waits.
type wait struct {
	pod   types.UID
	since time.Time
	told  bool
}
