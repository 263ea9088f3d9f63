package disruption

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/internal/platform/workload"
)

// Request is one request that takes a pod away or changes it.
type Request struct {
	// Verb is what the client asks for.
	Verb budget.Verb
	// Pod as it is now, and Changed as it will be; nil unless the verb changes it in place.
	Pod, Changed *corev1.Pod
	// User that asks, and all that the API server tells of the user.
	User string
	Info authenticationv1.UserInfo
	// ByUID tells that the client names the pod by its UID too.
	ByUID bool
	// Own tells that the controller itself asks, and not the API server.
	Own bool
	// DryRun tells that nothing will happen to the pod. Nothing is written then.
	DryRun bool
}

// Answer is the answer to a request.
type Answer struct {
	budget.Decision
	// Vector is the way in which the pod goes.
	Vector budget.Vector
	// Left says of a dry run that passes how many pods may go after it, for each budget.
	Left []string
	// Once tells that Kubernetes would refuse a further eviction when the pod is not Ready.
	Once bool

	taken *taken // nil when nothing was entered
}

// Refused reports whether the pod must stay for now.
func (a Answer) Refused() bool { return a.Verdict == budget.Refused }

// inquiry is a request with what is known before its budgets are counted.
type inquiry struct {
	request      Request
	chain, after []workload.Owner // the controllers of the pod, before and after a change
	covering     []covering
	pdbs         []budget.PDB
	vector       budget.Vector
	unread       error // why the pod could not be read past the cache
}

// outOfServiceFirst reports whether an eviction under a PodDisruptionBudget is refused at first, with the pod out of service. The
// PodDisruptionBudget does not know of it, so that the book has to.
func (c *inquiry) outOfServiceFirst() bool {
	return c.vector == budget.Evict && len(c.pdbs) == 1 && budget.Gated(c.request.Pod) && !c.once()
}

// once reports whether Kubernetes would refuse an eviction forever when the pod is not Ready: a PodDisruptionBudget that
// needs no healthy pod counts none that may go then.
func (c *inquiry) once() bool {
	return len(c.pdbs) == 1 && c.pdbs[0].DesiredHealthy == 0 && !c.pdbs[0].AlwaysAllowUnhealthy
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
	if r = c.request; len(c.covering) == 0 && r.Verb != budget.VerbEvict && !budget.Gated(r.Pod) {
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
		OutOfServiceFirst: c.outOfServiceFirst(), DryRun: c.request.DryRun, Version: pod.ResourceVersion, Generation: pod.Generation, Restarts: budget.Restarts(pod),
	}
	if c.request.ByUID {
		in.ForUID = string(pod.UID)
	}
	var err error
	if len(in.PDBs) == 1 && in.PDBs[0].Allowed > 0 { // else it refuses whatever the book has
		if in.PDBs[0].Healthy, err = j.reader.healthy(ctx, pod.Namespace, in.PDBs[0], now); err != nil {
			return in, err
		}
	}
	keeps := false
	for _, covering := range c.covering {
		f, err := j.reader.Covered(ctx, covering.object, now)
		if err != nil {
			return in, fmt.Errorf("count pods of budget %s: %w", covering.object.Name, err)
		}
		f.Budget.Exempt = covering.matcher.Exempts(pod)
		f.Budget.Leaves = covering.leaves
		keeps = keeps || f.Budget.Rules.KeepPlace
		if covering.divided == nil {
			f.Budget.Pods = with(f.Budget.Pods, budget.PodOf(pod, f.Budget.Rules.Stable, now))
			in.Budgets = append(in.Budgets, f.Budget)
			continue
		}
		f.Budget.Sites = covering.sites
		split, err := j.reader.groupsOf(ctx, covering.divided, &f, pod, now)
		if err != nil {
			return in, fmt.Errorf("count groups of budget %s: %w", covering.object.Name, err)
		}
		in.Budgets = append(in.Budgets, split...)
	}
	if !keeps {
		return in, nil
	}
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
	for _, b := range budget.Local(in.Budgets, in.Book) {
		n := budget.Count(b, in.Book, in.Now)
		after := n.Allowed
		if d.Take {
			after = max(after-1, 0)
		}
		lines = append(lines, fmt.Sprintf("budget %s: %d of %d pods are available, %d must be; after this pod %d more may go",
			b.Shown(), n.Current, n.Total, n.Desired, after))
	}
	return lines
}

// entered returns the book after a decision, and the decision: a full book refuses. changed
// reports whether the book must be written.
func entered(book ledger.Book, c inquiry, in budget.Input, d budget.Decision) (after ledger.Book, _ budget.Decision, changed bool) {
	if d.Take {
		if book, changed = ledger.Take(book, in.Entry()); !changed && d.Verdict == budget.Allowed {
			d = full(c, in)
		}
	}
	switch {
	case onlyNoted(d):
		return book, d, changed
	case d.Reason == budget.ReasonTaken && !changed:
		return book, d, false // another call for one request
	}
	book, noted := note(book, c, in, d)
	return book, d, changed || noted
}

// onlyNoted reports whether an answer need not wait until the book has it. A refusal gives no unit
// away. A request for a predecessor is one for the pod of that name from now on: the 404 is given
// once, and a drain that comes again means the pod that is there. So the book has it first.
func onlyNoted(d budget.Decision) bool {
	return d.Verdict == budget.Refused && d.Reason != budget.ReasonStale
}

// note puts a decision into the history of a book, and a refused request among those that wait.
func note(book ledger.Book, c inquiry, in budget.Input, d budget.Decision) (_ ledger.Book, changed bool) {
	if d.Verdict == budget.Refused {
		w := in.Waiting()
		w.Blocked = d.Blocked
		book, changed = ledger.Ask(book, w)
	}
	book, noted := ledger.Note(book, ledger.Decision{
		Time: in.Now, Pod: in.Pod.Name, Vector: string(in.Vector), Verdict: string(d.Verdict), By: in.By, Reason: string(d.Reason), Budgets: c.names(),
	})
	return book, changed || noted
}

// full is the answer when the book cannot take the pod.
func full(c inquiry, in budget.Input) budget.Decision {
	if unrefusable(in) {
		return budget.Decision{Verdict: budget.Accounted, Reason: budget.ReasonPolicy}
	}
	message := fmt.Sprintf("the book has no place for a further pod: %d pods that may go are not seen to be gone", ledger.MostEntries)
	return budget.Decision{Verdict: budget.Refused, Reason: budget.ReasonFull, Message: message, Blocking: c.names()}
}

// Metrics count what a replica decided.
type Metrics struct{ decisions *prometheus.CounterVec }

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "limpet_budget_decisions_total",
		Help: "Answers to requests that may make a pod of a budget unavailable, by the way in which the pod goes, the verdict and its reason. " +
			"Dry runs are not counted.",
	}, []string{"vector", "verdict", "reason"})}
	for _, vector := range []budget.Vector{budget.Evict, budget.Delete} { // 0 is shown before the first one
		m.decisions.WithLabelValues(string(vector), string(budget.Allowed), string(budget.ReasonUnits))
		m.decisions.WithLabelValues(string(vector), string(budget.Refused), string(budget.ReasonExhausted))
	}
	r.MustRegister(m.decisions)
	return m
}

// other takes the place of a value that is no constant of package budget.
const other = "other"

// Decided counts one answer. Nil metrics count nothing.
func (m *Metrics) Decided(vector budget.Vector, d budget.Decision) {
	if m == nil {
		return
	}
	m.decisions.WithLabelValues(known(budget.Vectors, vector), known(budget.Verdicts, d.Verdict), known(budget.Reasons, d.Reason)).Inc()
}

// known returns a value of a list as it is, so that no request can make a new series.
func known[T ~string](list []T, value T) string {
	if !slices.Contains(list, value) {
		return other
	}
	return string(value)
}
