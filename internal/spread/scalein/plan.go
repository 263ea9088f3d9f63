package scalein

import (
	"cmp"
	"slices"
	"strconv"
)

// item is a pod while its cost is decided.
type item struct {
	Pod
	value   int32 // the present cost
	foreign bool
	layer   int // none, before a layer is found
	step    int // between two layers 0
	surplus bool
}

const none = -1

// Plan decides about the costs of all pods of a revision. A pod whose cost is right is not
// written. Without subsets and without balance, the costs that Limpet wrote are removed.
func Plan(in Input) Decision {
	var d Decision
	if len(in.Subsets) == 0 && !in.Balanced {
		return giveUp(in)
	}
	items := itemsOf(in, &d)
	n := len(in.Subsets)
	groups := in.groups(items)
	sizes := in.sizes(groups)
	for i, s := range in.Subsets {
		place, most := i, s.Max
		if in.Old {
			place = n - 1 - i
		}
		if s.Percent {
			most = nil // the sizes tell it
		}
		d.plan(in, groups[s.Name], most, n-place, -(place + 1), sizes[s.Name])
	}
	others := -(n + 1)
	if n == 0 {
		others = 1
	}
	d.plan(in, groups[""], nil, others, others, nil)
	slices.SortFunc(d.Writes, func(a, b Write) int { return cmp.Compare(a.Pod, b.Pod) })
	return d
}

// giveUp removes the costs that Limpet wrote.
func giveUp(in Input) (d Decision) {
	for _, p := range in.Pods {
		if p.Mark != "" && (p.Cost == "" || p.Cost == p.Mark) {
			d.Writes = append(d.Writes, Write{Pod: p.Name})
		}
	}
	return d
}

func itemsOf(in Input, d *Decision) []*item {
	items := make([]*item, 0, len(in.Pods))
	for _, p := range in.Pods {
		it := &item{Pod: p, layer: none, foreign: !in.owns(p)}
		if !in.Balanced {
			it.Domain, it.Host = "", "" // one domain, whose layers are an order
		}
		it.value, _ = Parse(p.Cost)
		if it.foreign {
			d.Foreign = append(d.Foreign, p.Name)
		}
		items = append(items, it)
	}
	slices.Sort(d.Foreign)
	slices.SortFunc(items, stays)
	return items
}

// stays sorts the pods that stay first before those that go first, if neither has a cost. A pod
// that is within the maximum stays there although another pod becomes Ready, so that such
// changes cost no write: the ReplicaSet controller looks at Ready before it looks at costs.
func stays(a, b *item) int {
	return cmp.Or(
		first(a.Bound, b.Bound), first(a.Running, b.Running), first(a.value > 0, b.value > 0),
		first(a.Ready, b.Ready), a.Since.Compare(b.Since), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
}

// first sorts what is true before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// groups are the pods of each subset by its name, and those of none.
func (in Input) groups(items []*item) map[string][]*item {
	groups := map[string][]*item{}
	for _, s := range in.Subsets {
		groups[s.Name] = []*item{}
	}
	for _, it := range items {
		name := it.Subset
		if _, known := groups[name]; !known {
			name = ""
		}
		groups[name] = append(groups[name], it)
	}
	return groups
}

// plan decides about the pods of one subset: the steps of those within its maximum, and of the
// surplus. The items are sorted, those that stay first. With percentages, the pods that stay longest
// belong to the smallest sizes.
func (d *Decision) plan(in Input, items []*item, most *int32, within, beyond int, sizes []int) {
	if in.layered() {
		d.Holes = in.layer(items) || d.Holes
	}
	if most != nil && len(items) > int(*most) {
		for _, it := range topFirst(items)[:len(items)-int(*most)] {
			it.surplus = true
		}
	}
	last := topFirst(items)
	slices.Reverse(last)
	for i, it := range last {
		step := within
		switch {
		case it.surplus, sizes != nil && i >= len(sizes):
			step = beyond
		case sizes != nil:
			step = mostSize - sizes[i]
		}
		d.write(in, it, step)
	}
}

// topFirst sorts pods that go first before those that stay: pods without a node, and then the
// highest layers.
func topFirst(items []*item) []*item {
	out := slices.Clone(items)
	slices.Reverse(out)
	slices.SortStableFunc(out, func(a, b *item) int { return cmp.Or(first(!a.Bound, !b.Bound), b.layer-a.layer) })
	return out
}

func (d *Decision) write(in Input, it *item, step int) {
	if it.foreign {
		return
	}
	cost := strconv.Itoa(step * Step)
	switch { // a pod without a node goes first, whatever its cost
	case in.layered() && it.layer == none, !it.Bound && it.Subset == "":
		return
	case in.layered():
		cost = strconv.Itoa(step*it.step - it.layer)
	}
	if it.Cost != cost || it.Mark != cost {
		d.Writes = append(d.Writes, Write{Pod: it.Name, Cost: cost})
	}
}
