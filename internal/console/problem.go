package console

import (
	"cmp"
	"strings"
)

// Severity says whether a problem breaks a promise of Limpet now.
type Severity string

const (
	// Broken is a part that does not do its work.
	Broken Severity = "Broken"
	// Attention is a state that an operator should know: a pod waits, or a pool is full.
	Attention Severity = "Attention"
)

// Problem is one thing that needs attention.
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

// Namespace returns the namespace of the object; empty for an object without one.
func (p Problem) Namespace() string {
	_, name, _ := strings.Cut(p.Object, " ")
	namespace, _, found := strings.Cut(name, "/")
	if !found {
		return ""
	}
	return namespace
}

// Worse compares two problems: the worst comes first, then the order is that of objects.
func Worse(a, b Problem) int {
	return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(a.Object, b.Object)) // Broken is the later word
}
