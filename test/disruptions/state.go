package disruptions

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// unavailableLabel is the prefix of labels that make a pod unavailable.
const unavailableLabel = "unavailable-pod.kruise.io/"

// pod is a pod as the log last showed it.
type pod struct {
	Pod
	// started is when the pod ceased to be pending.
	started time.Time
	// changed is what the decision about a change in place knew at the least; the containers were runs then.
	// The pod counts as unavailable until they were restarted, or never will be. No budget that is younger
	// knows that.
	changed time.Time
	runs    string
	// given is what the decision knew at the least that gave the pod to owners that do not exist: the garbage collector will
	// delete it.
	given time.Time
	// budgets cover the pod.
	budgets map[*budget]bool
}

// budget is a budget with its past.
type budget struct {
	Budget
	selector, ignored labels.Selector
	// workloads are those of all pods that the budget has covered. A workload counts although
	// all of its pods are gone, and one whose template the selector matches before it has any.
	workloads map[string]bool
	// desired is how many pods had to be available, since when, in the order of time.
	desired []since
	// losses are the times at which a pod became unavailable by no voluntary disruption.
	losses []time.Time
	// granted are the voluntary disruptions of pods that were available at the decision.
	granted []*grant
	// free is since when a unit has been free and none was used; zero while none is free. Requests
	// wait since waits, and the last one came at asked.
	free, waits, asked time.Time
}

// busy notes that a unit was used, or that none is free.
func (b *budget) busy() { b.free, b.waits = time.Time{}, time.Time{} }

// grant is one voluntary disruption. After it, spare more pods were available than had to be.
type grant struct {
	at    time.Time
	spare int
}

// spares reports whether no grant since a time needed one more pod, and takes the pod from them.
func (b *budget) spares(since time.Time) bool {
	later := b.granted
	for len(later) > 0 && later[0].at.Before(since) {
		later = later[1:]
	}
	if slices.ContainsFunc(later, func(g *grant) bool { return g.spare < 1 }) {
		return false
	}
	for _, g := range later {
		g.spare--
	}
	return true
}

// since is how many pods had to be available from a time on. of is how many the workloads wanted.
type since struct {
	at        time.Time
	value, of int
}

// state is what exists at a moment of the log.
type state struct {
	pods      map[string]*pod
	workloads map[string]*Workload
	budgets   map[string]*budget
	taints    map[string][]string
	ending    map[string]bool      // nodes that are being deleted
	closed    map[string]time.Time // since when nodes take no pods
}

func newState() *state {
	return &state{
		pods: map[string]*pod{}, workloads: map[string]*Workload{}, budgets: map[string]*budget{},
		taints: map[string][]string{}, ending: map[string]bool{}, closed: map[string]time.Time{},
	}
}

// chain returns the controllers of a pod, the direct one first.
func (s *state) chain(o Owner) []*Workload {
	var all []*Workload
	for len(all) < 5 {
		w := s.workloads[o.UID]
		if w == nil {
			break
		}
		all = append(all, w)
		o = w.Owner
	}
	return all
}

// covers reports whether the budget covers the pod.
func (s *state) covers(b *budget, p *pod) bool {
	if b.Gone || b.Namespace != p.Namespace {
		return false
	}
	if b.selector != nil {
		return b.selector.Matches(labels.Set(p.Labels))
	}
	if p.Owner.is(b.Target) {
		return true
	}
	for _, w := range s.chain(p.Owner) {
		if (Owner{Group: w.Group, Kind: w.Kind, Name: w.Name}).is(b.Target) || w.Owner.is(b.Target) {
			return true
		}
	}
	return false
}

// protects reports whether the budget judges the requests for a pod that it counts.
func (b *budget) protects(p *pod) bool {
	return !p.Unprotected && (b.ignored == nil || !b.ignored.Matches(labels.Set(p.Labels)))
}

// needsWorkloads reports whether the size of the budget is that of workloads.
func (b *budget) needsWorkloads() bool { return b.Total == 0 && !b.IgnoreScale }

func (o Owner) is(target Owner) bool {
	return o.Group == target.Group && o.Kind == target.Kind && o.Name == target.Name
}

// join computes which budgets cover the pod.
func (s *state) join(p *pod) {
	p.budgets = map[*budget]bool{}
	for _, b := range s.budgets {
		if !s.covers(b, p) {
			continue
		}
		p.budgets[b] = true
		if all := s.chain(p.Owner); len(all) > 0 {
			b.workloads[all[len(all)-1].UID] = true
		}
	}
}

// available reports whether the pod counts for a budget at a time.
func (p *pod) available(b *budget, now time.Time) bool {
	went := !p.changed.IsZero() && !b.youngerThan(p.changed) || !p.given.IsZero() && !b.youngerThan(p.given)
	if p.Deleting || p.Finished || !p.Ready || now.Sub(p.ReadySince) < b.Stable || went {
		return false
	}
	return !p.marked()
}

// marked reports whether a label makes the pod unavailable.
func (p *pod) marked() bool {
	for l := range p.Labels {
		if len(l) > len(unavailableLabel) && strings.HasPrefix(l, unavailableLabel) {
			return true
		}
	}
	return false
}

// current is how many pods of the budget are available.
func (s *state) current(b *budget, now time.Time) int {
	n := 0
	for _, p := range s.pods {
		if p.budgets[b] && p.available(b, now) {
			n++
		}
	}
	return n
}

// wanted is how many pods the workloads want of which the budget covers a pod now, or the next one.
func (s *state) wanted(b *budget) int {
	present := map[string]bool{}
	for _, p := range s.pods {
		if all := s.chain(p.Owner); p.budgets[b] && !p.Deleting && len(all) > 0 {
			present[all[len(all)-1].UID] = true
		}
	}
	return s.total(b, present)
}

// total is the size of some workloads of a budget that has a selector, or of the budget's target.
func (s *state) total(b *budget, workloads map[string]bool) int {
	if b.Total > 0 {
		return b.Total
	}
	if b.IgnoreScale {
		return s.living(b, func(*pod) bool { return true })
	}
	n := 0
	for _, w := range s.workloads {
		named := b.selector == nil && w.Namespace == b.Namespace && ((Owner{Group: w.Group, Kind: w.Kind, Name: w.Name}).is(b.Target) ||
			w.Owner.is(b.Target) && s.workloads[w.Owner.UID] == nil) // such as the ReplicaSets of a Rollout
		next := b.selector != nil && w.Namespace == b.Namespace && s.workloads[w.Owner.UID] == nil && len(w.Labels) > 0 && b.selector.Matches(labels.Set(w.Labels))
		if (named || next || b.selector != nil && workloads[w.UID]) && !w.Gone && !w.Deleting {
			n += w.Replicas
		}
	}
	if b.selector != nil {
		n += s.living(b, func(p *pod) bool { return p.Owner.UID == "" })
	}
	return n
}

// living counts the pods of a budget that are not terminating.
func (s *state) living(b *budget, counts func(*pod) bool) int {
	n := 0
	for _, p := range s.pods {
		if p.budgets[b] && !p.Deleting && !p.Finished && counts(p) {
			n++
		}
	}
	return n
}

// want is how many pods of the budget must be available.
func (s *state) want(b *budget) int {
	if b.Gone {
		return 0
	}
	total := s.total(b, b.workloads)
	if b.MaxUnavailable != nil {
		return max(0, total-scaled(b.MaxUnavailable, total))
	}
	return scaled(b.MinAvailable, total)
}

// scaled returns a number, or a percentage of total, rounded up.
func scaled(v *intstr.IntOrString, total int) int {
	if v == nil {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, total, true)
	if err != nil {
		return 0
	}
	return n
}

// lowest is the least number of pods that had to be available at a moment from a time on. The controllers of workloads
// need not keep more pods than the workloads want.
func (b *budget) lowest(from time.Time, byController bool) int {
	least, known := 0, false
	for _, d := range slices.Backward(b.desired) {
		if byController {
			d.value = min(d.value, d.of)
		}
		if !known || d.value < least {
			least, known = d.value, true
		}
		if !d.at.After(from) {
			return least
		}
	}
	return 0 // the budget is younger
}

// lost is how many pods were lost from a time on.
func (b *budget) lost(from time.Time) int {
	n := 0
	for _, at := range b.losses {
		if !at.Before(from) {
			n++
		}
	}
	return n
}

// youngerThan reports whether the budget did not exist at a time.
func (b *budget) youngerThan(at time.Time) bool {
	return len(b.desired) == 0 || b.desired[0].at.After(at)
}

func selectorOf(s *metav1.LabelSelector) (labels.Selector, error) {
	if s == nil {
		return nil, nil //nolint:nilnil // no selector
	}
	parsed, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, fmt.Errorf("parse selector: %w", err)
	}
	return parsed, nil
}
