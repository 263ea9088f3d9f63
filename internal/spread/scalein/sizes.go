package scalein

import "slices"

// mostSize is more pods than a workload with percentages is expected to have. A cost of its sizes fits into 32 bits.
const mostSize = 60_000

// shared tells that a maximum is a percentage, so that a scale-in must take pods from all subsets. An
// old revision does not keep its shares: the new one fills the subsets in their order.
func (in Input) shared() bool {
	return !in.Old && slices.ContainsFunc(in.Subsets, func(s Subset) bool { return s.Percent })
}

// layered reports whether each pod has a layer. With percentages alone, a subset is one domain.
func (in Input) layered() bool { return in.Balanced || in.shared() }

// step is the difference between the costs of two steps with layers.
func (in Input) step() int {
	if in.shared() {
		return sizeStep
	}
	return layerStep
}

// sizes returns, by subset, the size of the workload from which on the subset has its first pod, its
// second pod, and so on. With each size one pod more belongs to the workload: that of the first subset
// which has not its maximum of that size. So a scale-in to any size leaves the subsets what they take
// of that size, and the pods of all smaller sizes are among those that stay.
func (in Input) sizes(groups map[string][]*item) map[string][]int {
	if !in.shared() {
		return nil
	}
	sizes, missing := map[string][]int{}, 0
	for _, s := range in.Subsets {
		sizes[s.Name] = []int{}
		missing += len(groups[s.Name])
	}
	most := min(mostSize, 100*(missing+len(in.Subsets))) // with 1% a subset takes a pod of each 100
	for size := 1; missing > 0 && size < most; size++ {
		i := slices.IndexFunc(in.Subsets, func(s Subset) bool { return s.takes(len(sizes[s.Name]), size) })
		if i < 0 {
			continue
		}
		name := in.Subsets[i].Name
		if sizes[name] = append(sizes[name], size); len(sizes[name]) <= len(groups[name]) {
			missing--
		}
	}
	return sizes
}

// takes reports whether a subset with some pods takes one more, in a workload of some size.
func (s Subset) takes(pods, size int) bool {
	switch {
	case s.Max == nil:
		return true
	case s.Percent:
		return 100*pods < int(*s.Max)*size // maxima are rounded up
	}
	return pods < int(*s.Max)
}
