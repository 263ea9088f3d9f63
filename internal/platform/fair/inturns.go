package fair

// InTurns returns the first of each key, then the second of each, and so on. Keys come in the order in which
// they first appear.
func InTurns[K comparable, T any](all []T, key func(T) K) []T {
	var order []K
	of := map[K][]T{}
	for _, one := range all {
		k := key(one)
		if of[k] == nil {
			order = append(order, k)
		}
		of[k] = append(of[k], one)
	}
	sorted := make([]T, 0, len(all))
	for turn := 0; len(order) > 0; turn++ {
		left := order[:0]
		for _, k := range order {
			if sorted = append(sorted, of[k][turn]); turn+1 < len(of[k]) {
				left = append(left, k)
			}
		}
		order = left
	}
	return sorted
}
