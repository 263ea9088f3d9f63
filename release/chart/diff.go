package chart

import "slices"

// change is how a variant differs from the base, line by line.
type change struct {
	// before is the lines that stand before line i of the base, or after the last line for i = len(base).
	before map[int][]string
	// without is the lines of the base that the variant does not have.
	without map[int]bool
}

func (c change) none() bool { return len(c.before) == 0 && len(c.without) == 0 }

// compare returns the smallest change from the base to the variant.
func compare(base, variant []string) change {
	c := change{before: map[int][]string{}, without: map[int]bool{}}
	head := 0
	for head < len(base) && head < len(variant) && base[head] == variant[head] {
		head++
	}
	tail := 0
	for tail < len(base)-head && tail < len(variant)-head && base[len(base)-1-tail] == variant[len(variant)-1-tail] {
		tail++
	}
	a, b := base[head:len(base)-tail], variant[head:len(variant)-tail]
	common := longest(a, b)
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			i, j = i+1, j+1
		case j < len(b) && (i == len(a) || common[i][j+1] >= common[i+1][j]):
			c.before[head+i] = append(c.before[head+i], b[j])
			j++
		default:
			c.without[head+i] = true
			i++
		}
	}
	return c
}

// longest returns the length of the longest common subsequence of a[i:] and b[j:] for all i and j.
func longest(a, b []string) [][]int {
	common := make([][]int, len(a)+1)
	for i := range common {
		common[i] = make([]int, len(b)+1)
	}
	for i := range slices.Backward(a) {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	return common
}
