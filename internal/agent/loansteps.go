package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/lifecycle"
	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// errPodsRun tells that an empty state would give the addresses of pods to others.
var errPodsRun = errors.New("the state of the node is gone, and pods with addresses run: the next pod that starts or ends makes it again, and so does limpet-ipam check --repair")

// lendSteps bounds the steps of one owner in a row.
const lendSteps = 8

// lendPass is one pass over the loans.
type lendPass struct {
	*lending
	in     plan.LoansInput
	hasPod func(plan.LoanCase) bool
	// lingers becomes true when a step waits for the end of a network namespace, of which nothing tells.
	lingers *bool
}

// answerError is the answer of the API server to a request.
type answerError struct {
	verb plan.Verb
	err  error
}

func (e answerError) Error() string { return e.err.Error() }
func (e answerError) Unwrap() error { return e.err }

// due returns the cases for which there is a step, by what the cache shows, and that need not wait.
func (p lendPass) due(ctx context.Context, cases []plan.LoanCase, now time.Time) (due []plan.LoanCase, err error) {
	err = p.view(ctx, func(tx *persistence.Tx) error {
		due = nil
		for _, c := range cases {
			if now.Before(p.retries[c.Owner].Until) {
				continue
			}
			_, s, err := p.plan(tx, c, false)
			if err != nil {
				p.later(c.Owner, err)
			} else if s.Verb != loan.Nothing {
				due = append(due, c)
			} else {
				delete(p.retries, c.Owner)
			}
		}
		return nil
	})
	return due, err
}

// view reads the state; tx is nil without one.
func (p lendPass) view(ctx context.Context, fn func(tx *persistence.Tx) error) error {
	err := p.store.View(ctx, fn)
	if errors.Is(err, persistence.ErrNoState) {
		return fn(nil)
	}
	return err //nolint:wrapcheck // the store tells what it was
}

// plan returns the next step of a case, with the addresses that it is about.
func (p lendPass) plan(tx *persistence.Tx, c plan.LoanCase, live bool) (plan.LoanCase, loan.Step, error) {
	facts := lifecycle.LoanFacts{Record: loan.Record{Confirmed: true}, Addresses: c.Addresses}
	if tx != nil {
		var err error
		if facts, err = lifecycle.GatherLoan(tx, c.Owner, c.Addresses, p.Now()); err != nil {
			return c, loan.Step{}, fmt.Errorf("read what the state has of %s: %w", c.Owner, err)
		}
	}
	c.Addresses = facts.Addresses
	in := p.in.Input(c, p.hasPod(c) || p.waits(c.Owner), live)
	in.Record, in.Own, in.Attached, in.Taken = facts.Record, facts.Own, facts.Attached, facts.Taken
	if _, exists := p.lookAtNetNS(facts.Ended); exists && !in.Attached && facts.Own { // it may have the address, though IPAM has ended
		in.Attached, *p.lingers = true, true
	}
	s := loan.PlanNode(in)
	if plan.Untaken(in, s) && p.mayCome(c) {
		s = loan.Step{}
	}
	return c, s, nil
}

// mayCome reports whether the controller has named this node a short time ago.
func (p lendPass) mayCome(c plan.LoanCase) bool {
	epoch := c.Object.Status.Epoch
	if n, known := p.named[c.Owner]; !known || n.epoch != epoch {
		p.named[c.Owner] = naming{epoch, p.Clock.Now()}
	}
	return p.Clock.Since(p.named[c.Owner].since) < comes
}

// settle reads the loan of an owner from the API server, and carries out steps until there is none.
func (p lendPass) settle(ctx context.Context, c plan.LoanCase) error {
	spec := plan.ShowLoan(plan.LoanCase{Owner: c.Owner}, loan.Loan{}, metav1.Time{})
	o := &v1alpha1.BorrowedAddress{ObjectMeta: metav1.ObjectMeta{Namespace: spec.Namespace, Name: spec.Name}}
	switch err := p.show.Client.Get(ctx, o); {
	case apierrors.IsNotFound(err): // also without the kind, which goes after its last loan: each has a finalizer
		c.Object = nil
		return p.carryOut(ctx, c)
	case err != nil:
		return fmt.Errorf("read loan %s/%s: %w", o.Namespace, o.Name, answerError{plan.Create, err})
	}
	owner, addrs, valid := plan.LoanOwner(o, p.in.Network)
	if !valid || owner != c.Owner || c.Object == nil && !reservation.SameAddresses(addrs, c.Addresses) {
		return fmt.Errorf("the loan %s/%s is of %s, and this node has %v for %s: look which pod has what, and end what is wrong with kubectl limpet release", o.Namespace, o.Name, o.Spec.IPs, c.Addresses, c.Owner)
	}
	c.Object, c.Addresses = o, addrs
	return p.carryOut(ctx, c)
}

// carryOut carries out steps until there is none. The loan was read from the API server.
func (p lendPass) carryOut(ctx context.Context, c plan.LoanCase) error {
	for range lendSteps {
		var s loan.Step
		err := p.view(ctx, func(tx *persistence.Tx) (err error) {
			c, s, err = p.plan(tx, c, true)
			return err
		})
		if err != nil || s.Verb == loan.Nothing {
			return err
		}
		switch s.Verb {
		case loan.Nothing, loan.Read: // what was read is live
		case loan.Write:
			err = p.write(ctx, c, s)
		case loan.Put:
			c.Object, err = p.put(ctx, c, s.Loan)
		case loan.Remove:
			c.Object, err = nil, p.remove(ctx, c.Object)
		}
		if err != nil {
			return err
		}
		p.metrics.loanSteps.WithLabelValues(loanVerbs[s.Verb]).Inc()
		p.Log.Info("A loan goes on", "step", loanVerbs[s.Verb], "reason", s.Reason, "owner", c.Owner.String(), "addresses", c.Addresses)
	}
	return nil
}

// loanVerbs are the names of steps, for metrics and logs.
var loanVerbs = map[loan.Verb]string{loan.Write: "write", loan.Put: "put", loan.Remove: "remove"}

// write writes the record of a step. A route to an address that an ADD can have after it goes first: ptp fails where there
// is one. Below flannel that of a guest is the way to its pod.
func (p lendPass) write(ctx context.Context, c plan.LoanCase, s loan.Step) error {
	p.kernel.Lock()
	defer p.kernel.Unlock()
	if s.Record.Lent == 0 && (p.OwnNetwork || p.Flannel && s.Record.Guest == 0) {
		if err := removeRoutes(p.cluster.links, c.Addresses); err != nil {
			return err
		}
	}
	record := func(tx *persistence.Tx) error {
		return lifecycle.WriteLoan(tx, c.Owner, c.Addresses, s, p.Now())
	}
	err := p.store.Update(ctx, record)
	if errors.Is(err, persistence.ErrNoState) {
		err = p.beginWith(ctx, record)
	}
	if err != nil {
		p.cluster.notify() // the route may be needed
		return fmt.Errorf("record what the loan of %s says: %w", c.Owner, err)
	}
	if p.Flannel { // whose plugins make no route to a guest
		p.cluster.notify()
	}
	if err := os.Remove(waitMarker(p.StateDir, c.Owner)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("tell the ADD that waits: %w", err)
	}
	return nil
}

// beginWith begins the state of a node that has none: with its reservations, before a record ends that it is to be refilled.
func (p lendPass) beginWith(ctx context.Context, record func(*persistence.Tx) error) error {
	if err := p.refill(ctx); err != nil {
		return err
	}
	store, err := p.begin()
	switch {
	case err != nil:
		return err
	case store == nil:
		return errPodsRun
	}
	return store.Update(ctx, record)
}

// put makes or replaces the loan, if it is still the one that was read.
func (p lendPass) put(ctx context.Context, c plan.LoanCase, l loan.Loan) (*v1alpha1.BorrowedAddress, error) {
	o := plan.ShowLoan(c, l, metav1.NewTime(p.Now().Wall))
	verb, send := plan.Update, p.show.Client.Update
	if c.Object == nil {
		verb, send = plan.Create, p.show.Client.Create
	}
	if err := send(ctx, o); err != nil {
		return c.Object, fmt.Errorf("%s loan %s/%s: %w", verb, o.Namespace, o.Name, answerError{verb, err})
	}
	return o, nil
}

// remove removes a loan, with the finalizer that keeps it.
func (p lendPass) remove(ctx context.Context, o *v1alpha1.BorrowedAddress) error {
	if o = o.DeepCopy(); slices.Contains(o.Finalizers, loan.Finalizer) {
		o.Finalizers = slices.DeleteFunc(o.Finalizers, func(f string) bool { return f == loan.Finalizer })
		if err := p.show.Client.Update(ctx, o); err != nil {
			return fmt.Errorf("remove finalizer of loan %s/%s: %w", o.Namespace, o.Name, answerError{plan.Update, err})
		}
		if o.DeletionTimestamp != nil && len(o.Finalizers) == 0 { // it is gone
			return nil
		}
	}
	if err := p.show.Client.DeleteExactly(ctx, o); plan.Judge(plan.Delete, err) != plan.Written {
		return fmt.Errorf("remove loan %s/%s: %w", o.Namespace, o.Name, answerError{plan.Delete, err})
	}
	return nil
}

// allStored returns all loans as the API server stores them; none where it does not serve the kind, or not to this agent.
func (l *lending) allStored(ctx context.Context) (all []*v1alpha1.BorrowedAddress, err error) {
	err = l.show.Client.Loans(ctx, func(o *v1alpha1.BorrowedAddress) { all = append(all, o) })
	if notServed(err) || apierrors.IsForbidden(err) && l.show.Client.Ready(ctx) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list loans: %w", err)
	}
	return all, nil
}

// waitMarker is the file that an ADD makes which waits for the record of an owner.
func waitMarker(stateDir string, o reservation.Owner) string {
	id := o.LoanID()
	return filepath.Join(stateDir, persistence.PendingDir, fmt.Sprintf(".%s:%s:%s", id.Network, id.ContainerID, id.IfName))
}

// waits reports whether an ADD waits for the record of an owner: its pod is on this node, whatever the list of pods says.
func (l *lending) waits(o reservation.Owner) bool { return locked(waitMarker(l.StateDir, o)) }
