package disruption

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/internal/platform/workload"
)

// inquiry is a request with what is known before its budgets are counted.
type inquiry struct {
	request      Request
	chain, after []workload.Owner // the controllers of the pod, before and after a change
	covering     []covering
	pdbs         []budget.PDB
	vector       budget.Vector
	unread       error // why the pod could not be read past the cache
}

// inquire gathers which budgets a request concerns, and in which way the pod goes.
func (j *Judge) inquire(ctx context.Context, r Request) (inquiry, error) {
	c, err := j.find(ctx, r)
	if err != nil {
		return c, err
	}
	if c, err = j.confirm(ctx, c); err != nil {
		return c, err
	}
	if r = c.request; len(c.covering) == 0 && r.Verb != budget.VerbEvict {
		return c, nil
	}
	if r.Changed != nil {
		if c.after, err = cluster.ChainOf(ctx, j.reader.cached, r.Changed); err != nil {
			return c, err
		}
	}
	if r.Verb == budget.VerbEvict {
		if c.pdbs, err = j.disruptionBudgets(ctx, r.Pod); err != nil {
			return c, err
		}
	}
	facts, err := j.facts(ctx, &c)
	c.vector = budget.VectorOf(facts)
	return c, err
}

// find gathers which budgets cover the pod of a request.
func (j *Judge) find(ctx context.Context, r Request) (c inquiry, err error) {
	c.request = r
	if c.chain, err = cluster.ChainOf(ctx, j.reader.cached, r.Pod); err != nil {
		return c, err
	}
	if c.covering, err = j.reader.covering(ctx, r.Pod, c.chain, math.MaxInt); err == nil && len(c.covering) == 0 {
		c.covering, err = j.unseen(ctx, &c)
	}
	return c, err
}

// input gathers what the budgets of an inquiry count.
func (j *Judge) input(ctx context.Context, c inquiry) (budget.Input, error) {
	now := j.clock.Now()
	pod := c.request.Pod
	in := budget.Input{
		Now: now, Namespace: pod.Namespace, Vector: c.vector, By: c.request.User, PDBs: c.pdbs, Pod: budget.PodOf(pod, 0, now),
		Version: pod.ResourceVersion, Generation: pod.Generation, Restarts: budget.Restarts(pod),
	}
	if c.request.ByUID {
		in.ForUID = string(pod.UID)
	}
	keeps := false
	for _, covering := range c.covering {
		f, err := j.reader.Facts(ctx, covering.object, now)
		if err != nil {
			return in, fmt.Errorf("count pods of budget %s: %w", covering.object.Name, err)
		}
		f.Budget.Exempt = covering.matcher.Exempts(pod)
		f.Budget.Leaves = covering.leaves
		f.Budget.Pods = with(f.Budget.Pods, budget.PodOf(pod, f.Budget.Rules.Stable, now))
		in.Budgets = append(in.Budgets, f.Budget)
		keeps = keeps || f.Budget.Rules.KeepPlace
	}
	if !keeps {
		return in, nil
	}
	var err error
	in.Place, err = j.place(ctx, pod)
	return in, err
}

// with puts the pod of the request, as the request has it, among the pods of a budget. The
// cache may not show the pod yet, or an older state of it.
func with(pods []budget.Pod, pod budget.Pod) []budget.Pod {
	at := slices.IndexFunc(pods, func(p budget.Pod) bool { return p.UID == pod.UID })
	if at < 0 {
		return append(pods, pod)
	}
	pod.Displaced = pods[at].Displaced
	pods[at] = pod
	return pods
}

func (c inquiry) names() []string {
	names := make([]string, len(c.covering))
	for i, covering := range c.covering {
		names[i] = covering.object.Name
	}
	return names
}

// unrefusable reports whether each budget allows the vector whatever it counts.
func unrefusable(in budget.Input) bool {
	in.Book = ledger.Book{}
	return budget.Plan(in).Verdict == budget.Accounted
}

// tooMany is the answer for a pod that more budgets cover than are judged together.
func (c inquiry) tooMany() budget.Decision {
	if c.vector.Default() == budget.Allow {
		return budget.Decision{Verdict: budget.Accounted, Reason: budget.ReasonPolicy}
	}
	return budget.Decision{
		Verdict: budget.Refused, Reason: budget.ReasonFull, Blocking: c.names()[:books.MostBudgets],
		Message: fmt.Sprintf("%d budgets cover the pod, and at most %d can be judged together: remove some of them", len(c.covering), books.MostBudgets),
	}
}

// left says how many pods may go after a dry run that passes, for each budget.
func left(in budget.Input, d budget.Decision) []string {
	if d.Verdict == budget.Refused {
		return nil
	}
	var lines []string
	for _, b := range in.Budgets {
		n := budget.Count(b, in.Book, in.Now)
		after := n.Allowed
		if d.Take {
			after = max(after-1, 0)
		}
		lines = append(lines, fmt.Sprintf("budget %s: %d of %d pods are available, %d must be; after this pod %d more may go",
			b.Name, n.Current, n.Total, n.Desired, after))
	}
	return lines
}
