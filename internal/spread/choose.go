package spread

import (
	"cmp"
	"fmt"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
)

// Choose returns the subset of a pod that is being created. A pod keeps the subset of its
// earlier entry, or else goes to the subset of its recorded node, or else to the first subset
// with a free slot.
//
// A required place overrules maxima and skips. A pod whose place is in no subset gets none.
//
// A surplus creation gives up the slot of the oldest entry, and chooses then.
func Choose(in Input) Decision {
	c := choice{spread: in.Spread, slots: in.Slots}
	home := Home{in.Node, in.Place, in.Room}.inPlace()
	areas := newAreas(in.Spread, in.Pod)
	if e := in.Spread.subset(in.Earlier); e != nil && c.takes(e) && (len(home.Place) == 0 || newArea(e, in.Pod).holds(home)) {
		return c.decide(e, ReasonEarlier, fmt.Sprintf("the pod has an entry in subset %s", e.Name))
	}
	if in.Surplus && in.Oldest != nil {
		c.replace(*in.Oldest)
	}
	if d, decided := c.returns(areas, home); decided {
		return d
	}
	d := c.first()
	if home.known() && d.Subset != "" {
		d.Unpinned = true
		d.Reason, d.Message = away(areas, home, d.Subset)
	}
	return d
}

// returns decides for the subset of a pod's home; false where the spread overrules the home.
func (c choice) returns(areas []area, home Home) (d Decision, decided bool) {
	if !home.known() {
		return d, false
	}
	var full *Subset
	for _, a := range areas {
		if !a.holds(home) || !a.takes(home) {
			continue
		}
		if c.free(a.Subset) {
			d = c.decide(a.Subset, ReasonReturns, fmt.Sprintf("subset %s contains %s", a.Name, home.name()))
			d.Home = "" // the pod returns, whatever other subsets take
			return d, true
		}
		full = cmp.Or(full, a.Subset)
	}
	switch {
	case len(home.Place) == 0:
		return d, false
	case full == nil:
		return Decision{Reason: ReasonNoSubset, Message: outside(home)}, true
	}
	d = c.decide(full, ReasonRequired, overfull(full.Name, home))
	d.Home = ""
	return d, true
}

func outside(home Home) string {
	return fmt.Sprintf("no subset contains %s, which the pod requires", home.name())
}

func overfull(subset string, home Home) string {
	return fmt.Sprintf("subset %s is full, and gets the pod all the same: it contains %s, which the pod requires", subset, home.name())
}

// choice is the spread and its slots, as the choice counts them.
type choice struct {
	spread   Spread
	slots    map[string]Slots
	replaces string
}

// replace counts without an entry, whose place the new one takes.
func (c *choice) replace(e Entry) {
	c.replaces = e.Key
	s := c.slots[e.Subset]
	s.Booked = max(s.Booked-1, 0)
	c.slots = maps.Clone(c.slots)
	if c.slots == nil {
		c.slots = map[string]Slots{}
	}
	c.slots[e.Subset] = s
}

// free reports whether a subset has a free slot.
func (c choice) free(s *Subset) bool {
	used := c.slots[s.Name]
	return s.Max == nil || int64(used.Pods)+int64(used.Booked) < int64(*s.Max)
}

// takes reports whether a subset takes a pod now.
func (c choice) takes(s *Subset) bool { return !s.Unschedulable && c.free(s) }

// first decides for the first subset that takes the pod.
func (c choice) first() Decision {
	for i := range c.spread.Subsets {
		if s := &c.spread.Subsets[i]; c.takes(s) {
			return c.decide(s, ReasonFilled, fmt.Sprintf("subset %s has a free slot", s.Name))
		}
	}
	return Decision{Reason: ReasonNoneFits, Message: noneFits(c.spread)}
}

func noneFits(s Spread) string {
	return fmt.Sprintf("no subset of WorkloadSpread %s takes the pod: each is full or takes no pods for now", s.Name)
}

func (c choice) decide(s *Subset, reason Reason, message string) Decision {
	d := Decision{Subset: s.Name, Book: s.Max != nil, Reason: reason, Message: message}
	if d.Book {
		d.Replaces = c.replaces
	}
	for i := range c.spread.Subsets {
		before := &c.spread.Subsets[i]
		if before.Name == s.Name {
			break
		}
		if before.Unschedulable && c.free(before) {
			d.Home = before.Name
			break
		}
	}
	return d
}

// passes reports whether a decision passes over an earlier subset because that one is full.
func (d Decision) passes(in Input) bool {
	c := choice{spread: in.Spread, slots: in.Slots}
	for i := range in.Spread.Subsets {
		s := &in.Spread.Subsets[i]
		if s.Name == d.Subset {
			return false
		}
		if !s.Unschedulable && !c.free(s) {
			return true
		}
	}
	return false
}

// away tells why a pod does not return home.
func away(areas []area, home Home, subset string) (Reason, string) {
	reason, where := ReasonNoSubset, ""
	for _, a := range areas {
		if !a.holds(home) {
			continue
		}
		if where = a.Name; !a.Unschedulable {
			reason = ReasonFull
			break
		}
		reason = ReasonSkipped
	}
	switch reason {
	case ReasonFull:
		return reason, fmt.Sprintf("the pod goes to subset %s and not to %s: subset %s is full", subset, home.name(), where)
	case ReasonSkipped:
		return reason, fmt.Sprintf("the pod goes to subset %s and not to %s: no pods can be scheduled in subset %s", subset, home.name(), where)
	default:
		return reason, fmt.Sprintf("the pod goes to subset %s and not to %s: no subset contains it", subset, home.name())
	}
}

// UnknownWants is the number of pods of an owner that does not tell how many it wants.
const UnknownWants = -1

// Facts are what a replica knows when a pod is created.
type Facts struct {
	Spread Spread
	// Key of the pod: the UID of the creation request, or the pod's name where it is given.
	Key string
	// Owner is the UID of the pod's controller.
	Owner string
	// Pods counts the active pods of the revision by subset. A pod of the same name as the new one
	// does not count: the creation proves that it is gone.
	Pods map[string]int32
	// OwnerPods counts the active pods of the owner, whatever their subset.
	OwnerPods int32
	// Wants is how many pods the owner wants; UnknownWants where it does not tell.
	Wants int32
	// Entries of the revision in the book, without those whose pods the replica has seen, also if these are gone since.
	Entries []Entry
	// Before reports whether an entry was in the book when the request came. Only such an entry can be
	// that of a refused creation: the others are made by creations beside this one. Nil is for all.
	Before func(key string) bool
	// Behind tells that another replica knew newer pods than this one when it made an entry. Then no
	// entry is taken over: its pod may be among those.
	Behind bool

	Pod   *corev1.Pod
	Node  *corev1.Node
	Place []corev1.NodeSelectorRequirement
	Room  bool
}

// InputOf counts the slots that are in use, and finds out what an earlier creation left.
func InputOf(f Facts) Input {
	in := Input{Spread: f.Spread, Slots: map[string]Slots{}, Pod: f.Pod, Node: f.Node, Place: f.Place, Room: f.Room}
	for subset, n := range f.Pods {
		in.Slots[subset] = Slots{Pods: n}
	}
	total := int64(f.OwnerPods)
	for i := range f.Entries {
		e := &f.Entries[i]
		if e.Key == f.Key {
			in.Earlier = e.Subset
			continue
		}
		s := in.Slots[e.Subset]
		s.Booked++
		in.Slots[e.Subset] = s
		if e.Owner != f.Owner {
			continue
		}
		total++
		if !f.Behind && (f.Before == nil || f.Before(e.Key)) && (in.Oldest == nil || older(e, in.Oldest)) {
			in.Oldest = e
		}
	}
	in.Surplus = f.Wants >= 0 && total >= int64(f.Wants)
	return in
}

// Replaces reports whether a creation may replace a pod whose deletion the caches do not show yet, for
// an owner that does not tell how many pods it wants: its workload has as many as it wants already.
// A creation beside the others shows the same while the workload is updated, so that such a creation
// may wait, and takes over no entry. pods are all pods and entries of the workload.
func Replaces(f Facts, in Input, d Decision, pods int64, size int32) bool {
	return f.Wants == UnknownWants && in.Earlier == "" && d.passes(in) && pods >= int64(size)
}

// older reports whether an entry was made before another one.
func older(a, b *Entry) bool {
	if !a.Since.Equal(b.Since) {
		return a.Since.Before(b.Since)
	}
	return a.Key < b.Key
}

// Wants returns how many active pods a ReplicaSet or a Job wants at the most, or UnknownWants
// for other owners. Neither creates a pod while it has that many.
func Wants(owner runtime.Object) int32 {
	switch o := owner.(type) {
	case *appsv1.ReplicaSet:
		return ptr.Deref(o.Spec.Replicas, 1)
	case *batchv1.Job:
		wants := ptr.Deref(o.Spec.Parallelism, 1)
		if o.Spec.Completions != nil {
			wants = min(wants, max(*o.Spec.Completions-o.Status.Succeeded, 0))
		}
		return wants
	default:
		return UnknownWants
	}
}
