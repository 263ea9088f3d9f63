package console

import (
	"cmp"
	"slices"
)

// Severity says whether a problem breaks a promise of Limpet now.
type Severity string

const (
	// Broken is a part that does not do its work.
	Broken Severity = "Broken"
	// Attention is a state that an operator should know: a pod waits, or a pool is full.
	Attention Severity = "Attention"
)

// Problem is one thing that needs a hand.
type Problem struct {
	Severity Severity `json:"severity"`
	// Object is kind, namespace and name, such as StatefulSet shop/web.
	Object string `json:"object"`
	// Reason is one word, where there is one the reason of a condition.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Remedy is what to do.
	Remedy string `json:"remedy,omitempty"`
}

// sorted returns problems with the worst first, then by object.
func sorted(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		if a.Severity != b.Severity {
			return cmp.Compare(rank(a.Severity), rank(b.Severity))
		}
		return cmp.Compare(a.Object, b.Object)
	})
	return problems
}

func rank(s Severity) int {
	if s == Broken {
		return 0
	}
	return 1
}

// hasBroken tells whether one of the problems is a part that does not do its work.
func hasBroken(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return p.Severity == Broken })
}
