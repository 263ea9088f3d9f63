package spread

import (
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/platform/workload"
)

// OrdinalInput are the facts about the pods of a StatefulSet.
type OrdinalInput struct {
	Spread Spread
	// Desired is which ordinals the StatefulSet wants.
	Desired workload.Desired
	// Pods are the subsets of the active pods, by their ordinals. A pod that is being created is not
	// among them, although the cache may still show the one before it.
	Pods map[int32]string
	// Homes are the recorded places of pods that do not exist, by their ordinals.
	Homes map[int32]Home
	// Pod is any pod of the StatefulSet; its tolerations count when a subset is looked for by a node.
	Pod *corev1.Pod
}

// Wants reports whether the StatefulSet wants an ordinal.
func (in OrdinalInput) Wants(ordinal int32) bool {
	_, wanted := number(in.Desired).place(ordinal)
	return wanted
}

// Assignment has the subsets of all ordinals of a StatefulSet. It computes them when it is asked:
// a StatefulSet may want more pods than fit into memory.
type Assignment struct {
	in      OrdinalInput
	numbers numbering
	areas   []area
	kept    map[int32]keep
	// used are the places of the ordinals that are not new, in order.
	used   []int64
	ranges []ordinals
	// left are the free slots of each subset that no wanted ordinal gets.
	left []int64
	// beyond are existing pods beyond the maximum of their subset, and extra what they would get.
	beyond []int32
	extra  map[int32]int
	// whole is the assignment if no subset were skipped; nil where none is.
	whole *Assignment
}

// keep is an ordinal that keeps its subset.
type keep struct {
	subset int
	reason Reason
}

// Assign computes the subsets of a StatefulSet's pods.
//
//  1. A pod that exists keeps its subset. A missing pod with a recorded place keeps the subset of
//     that place. A skipped subset keeps only pods whose recorded node has room.
//  2. Where more pods keep a subset than its maximum, existing pods stay before missing ones, and
//     then the lowest ordinals. The others count as new, unless their place is required.
//  3. New pods fill the subsets in their order. A subset takes first the ordinals that it has by
//     the maxima alone, and then the lowest. A skipped subset gets none.
//
// By the preference in rule 3, two pods that are rebuilt at the same time do not change places.
// Two replicas of the webhook whose caches differ by that rebuild compute the same.
func Assign(in OrdinalInput) Assignment {
	a := assign(in)
	if slices.ContainsFunc(in.Spread.Subsets, func(s Subset) bool { return s.Unschedulable }) {
		in.Spread.Subsets = slices.Clone(in.Spread.Subsets)
		for i := range in.Spread.Subsets {
			in.Spread.Subsets[i].Unschedulable = false
		}
		a.whole = new(assign(in))
	}
	return a
}

func assign(in OrdinalInput) Assignment {
	a := Assignment{
		in: in, numbers: number(in.Desired), areas: newAreas(in.Spread, in.Pod), kept: map[int32]keep{}, extra: map[int32]int{},
	}
	for _, area := range a.areas {
		free := int64(unlimited)
		if area.Max != nil {
			free = int64(*area.Max)
		}
		a.left = append(a.left, free)
	}
	a.keepPods()
	a.keepHomes()
	for i, area := range a.areas {
		if area.Unschedulable {
			a.left[i] = 0
		}
	}
	a.fill()
	for _, ordinal := range a.beyond {
		a.extra[ordinal] = a.firstLeft()
		if i := a.extra[ordinal]; i >= 0 {
			a.left[i]--
		}
	}
	return a
}

// unlimited is a number of free slots that never runs out.
const unlimited = math.MaxInt64 / 4

// keepPods keeps the pods that exist, up to the maxima.
func (a *Assignment) keepPods() {
	for _, ordinal := range slices.Sorted(maps.Keys(a.in.Pods)) {
		i := a.index(a.in.Pods[ordinal])
		if _, wanted := a.numbers.place(ordinal); i < 0 || !wanted {
			continue
		}
		if a.left[i] <= 0 {
			a.beyond = append(a.beyond, ordinal)
			continue
		}
		a.left[i]--
		a.kept[ordinal] = keep{i, ReasonEarlier}
	}
}

// keepHomes keeps the subsets of recorded places.
func (a *Assignment) keepHomes() {
	known := map[*corev1.Node][]bool{}
	for _, ordinal := range slices.Sorted(maps.Keys(a.in.Homes)) {
		home := a.in.Homes[ordinal].inPlace()
		_, exists := a.in.Pods[ordinal]
		if _, wanted := a.numbers.place(ordinal); exists || !wanted || !home.known() {
			continue
		}
		inside := a.containing(known, home.Node)
		fits := func(i int) bool { return inside[i] && a.areas[i].agrees(home) && a.areas[i].takes(home) }
		if i := a.first(func(i int) bool { return fits(i) && a.left[i] > 0 }); i >= 0 {
			a.left[i]--
			a.kept[ordinal] = keep{i, ReasonReturns}
			continue
		}
		if len(home.Place) == 0 {
			continue
		}
		a.kept[ordinal] = keep{-1, ReasonNoSubset}
		if i := a.first(fits); i >= 0 {
			a.left[i]--
			a.kept[ordinal] = keep{i, ReasonRequired}
		}
	}
}

// first returns the first subset of which something holds; -1 for none.
func (a *Assignment) first(holds func(int) bool) int {
	for i := range a.areas {
		if holds(i) {
			return i
		}
	}
	return -1
}

// containing tells which subsets contain a node. Many pods have the same one.
func (a *Assignment) containing(known map[*corev1.Node][]bool, node *corev1.Node) []bool {
	inside, ok := known[node]
	if !ok {
		for _, area := range a.areas {
			inside = append(inside, area.holds(Home{Node: node}))
		}
		known[node] = inside
	}
	return inside
}

// index returns the index of a subset by its name; -1 where there is none.
func (a *Assignment) index(name string) int {
	return slices.IndexFunc(a.areas, func(s area) bool { return s.Name == name })
}

// firstLeft returns the first subset that has a slot left; -1 where none has.
func (a *Assignment) firstLeft() int {
	return slices.IndexFunc(a.left, func(n int64) bool { return n > 0 })
}

// Of returns the subset of an ordinal. An ordinal that the StatefulSet does not want, as far as
// is known, gets a slot that is left: its caller should read the StatefulSet again.
func (a Assignment) Of(ordinal int32) Decision {
	if k, ok := a.kept[ordinal]; ok {
		return a.keeps(k, a.in.Homes[ordinal].inPlace())
	}
	at, wanted := a.numbers.place(ordinal)
	i, beyond := a.extra[ordinal]
	switch {
	case beyond:
	case wanted:
		i = a.filled(at)
	default:
		i = a.firstLeft()
	}
	return a.decide(ordinal, i, wanted)
}

func (a Assignment) keeps(k keep, home Home) Decision {
	if k.reason == ReasonNoSubset {
		return Decision{Reason: k.reason, Message: outside(home)}
	}
	name := a.areas[k.subset].Name
	d := Decision{Subset: name, Reason: k.reason, Message: fmt.Sprintf("the pod keeps subset %s", name)}
	if k.reason == ReasonReturns {
		d.Message = fmt.Sprintf("subset %s contains %s", name, home.name())
	}
	if k.reason == ReasonRequired {
		d.Message = overfull(name, home)
	}
	return d
}

func (a Assignment) decide(ordinal int32, i int, wanted bool) Decision {
	if i < 0 {
		return Decision{Reason: ReasonNoneFits, Message: noneFits(a.in.Spread)}
	}
	name := a.areas[i].Name
	d := Decision{Subset: name, Reason: ReasonFilled, Message: fmt.Sprintf("ordinal %d belongs to subset %s", ordinal, name), Home: a.home(ordinal)}
	if !wanted {
		d.Reason, d.Message = ReasonNotWanted, fmt.Sprintf("ordinal %d is not wanted; subset %s has a free slot", ordinal, name)
	}
	if h := a.in.Homes[ordinal]; h.known() && !a.areas[i].holds(h) {
		d.Unpinned = true
		d.Reason, d.Message = away(a.areas, h, name)
	}
	return d
}

// home returns the skipped subset that would have an ordinal; "" for none.
func (a Assignment) home(ordinal int32) string {
	if a.whole == nil {
		return ""
	}
	name := a.whole.Of(ordinal).Subset
	if i := a.index(name); i < 0 || !a.areas[i].Unschedulable {
		return ""
	}
	return name
}
