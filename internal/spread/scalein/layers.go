package scalein

import (
	"cmp"
	"maps"
	"slices"
)

// layer gives each pod with a node a layer in its domain, and reports whether a layer stays free.
// The layers of a domain are 0, 1, 2 and so on, each once. The pods of one host take turns with
// those of other hosts: first comes one pod of each host, then a second pod of each host that
// has two, and so on. As many pods as possible keep their layer.
func (in Input) layer(items []*item) (holes bool) {
	domains := map[string][]*item{}
	for _, it := range items {
		it.step = in.step()
		if it.Bound && (!it.foreign || int(it.value) >= it.step) { // a foreign pod with a lower cost goes before all layers
			domains[it.Domain] = append(domains[it.Domain], it)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(domains)) {
		if in.Waiting {
			holes = fill(domains[name]) || holes
			continue
		}
		settle(domains[name])
	}
	return holes
}

// present returns the layer that the cost of a pod tells; none for a cost without a layer.
func (it *item) present() int {
	if it.foreign || it.Cost == "" || it.Cost != it.Mark {
		return none
	}
	return (it.step - int(it.value)%it.step) % it.step
}

// fill gives new pods the lowest layers that are free, and lets all others keep theirs.
func fill(pods []*item) (holes bool) {
	taken := map[int]bool{}
	for _, it := range pods {
		if at := it.present(); at != none && at < 2*len(pods)+mostWaiting && !taken[at] {
			it.layer, taken[at] = at, true
		}
	}
	next := 0
	for _, it := range pods {
		for it.layer == none && taken[next] {
			next++
		}
		if it.layer == none {
			it.layer, taken[next] = next, true
		}
	}
	for at := range len(pods) {
		holes = holes || !taken[at]
	}
	return holes
}

// mostWaiting bounds the layers that fill believes: a user can write any cost.
const mostWaiting = 1000

// settle gives the pods of one domain the layers from 0 on, without a hole.
func settle(pods []*item) {
	hosts := map[string][]*item{}
	for _, it := range pods {
		hosts[it.Host] = append(hosts[it.Host], it)
	}
	names := slices.Sorted(maps.Keys(hosts))
	r := newRounds(hosts)
	for _, name := range names {
		r.keep(name, hosts[name])
	}
	for _, name := range names {
		r.assign(name, hosts[name])
	}
}

// rounds are the turns of the hosts of a domain. Round j has one pod of each host that has more
// than j pods; its layers begin at starts[j].
type rounds struct {
	starts []int             // of the rounds, and the end of the last one
	of     []int             // the round of each layer
	taken  []bool            // layers
	has    map[string][]bool // whether a host has its pod of a round
	next   []int             // the lowest layer of a round that may be free
}

func newRounds(hosts map[string][]*item) *rounds {
	longest, total := 0, 0
	for _, pods := range hosts {
		longest, total = max(longest, len(pods)), total+len(pods)
	}
	sizes := make([]int, longest)
	r := &rounds{has: map[string][]bool{}, taken: make([]bool, total)}
	for name, pods := range hosts {
		r.has[name] = make([]bool, len(pods))
		for j := range pods {
			sizes[j]++
		}
	}
	at := 0
	for j, size := range sizes {
		r.starts = append(r.starts, at)
		for range size {
			r.of = append(r.of, j)
		}
		at += size
	}
	r.next = slices.Clone(r.starts)
	return r
}

// keep lets the pods of a host keep layers of rounds in which the host has no other pod.
func (r *rounds) keep(host string, pods []*item) {
	j := 0
	for _, it := range pods {
		if it.foreign { // it goes after all others, whatever its layer is
			r.has[host][j] = true
			j++
		}
	}
	for _, it := range pods {
		at := it.present()
		if at == none || at >= len(r.of) || r.taken[at] || r.of[at] >= len(pods) || r.has[host][r.of[at]] {
			continue
		}
		it.layer, r.taken[at], r.has[host][r.of[at]] = at, true, true
	}
}

// assign gives the other pods of a host layers of the rounds that are left to it. The pods with
// the lowest layers come first, and new pods last.
func (r *rounds) assign(host string, pods []*item) {
	var left []*item
	for _, it := range pods {
		if it.layer == none && !it.foreign {
			left = append(left, it)
		}
	}
	slices.SortStableFunc(left, func(a, b *item) int {
		return cmp.Or(first(a.present() != none, b.present() != none), cmp.Compare(a.present(), b.present()))
	})
	j := 0
	for _, it := range left {
		for r.has[host][j] {
			j++
		}
		it.layer, r.has[host][j] = r.take(j), true
	}
}

// take returns the lowest free layer of a round.
func (r *rounds) take(j int) int {
	for r.taken[r.next[j]] {
		r.next[j]++
	}
	r.taken[r.next[j]] = true
	return r.next[j]
}
