package spread

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AdoptInput are pods of one revision that were there before the spread.
type AdoptInput struct {
	Spread Spread
	// Pods are active, run on nodes, and have no subset of the spread yet.
	Pods []*corev1.Pod
	// Nodes of the pods, by name.
	Nodes map[string]*corev1.Node
	// Slots that pods with a subset use, by the name of the subset.
	Slots map[string]Slots
}

// Adopt returns the subsets of the pods that fit into one, by the UIDs of the pods.
func Adopt(in AdoptInput) map[types.UID]string {
	return nil
}
