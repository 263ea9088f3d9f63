// Package podpatch is the vocabulary in which planners say what a pod that is being
// created should get. Planners return it as data; one merge step applies it.
package podpatch

import corev1 "k8s.io/api/core/v1"

// Patch is what one planner wants added to a pod. The zero value wants nothing.
// Nothing that the pod has is ever removed or replaced, but a planner's own annotations:
// one that it did not give to this very pod was copied from another, and is not true.
type Patch struct {
	// Annotations to set.
	Annotations map[string]string
	// Drop are annotations to remove. They are the planner's own words, never the user's.
	Drop []string
	// Required must hold in every one of the pod's node selector terms, whose OR keeps
	// its meaning.
	Required []corev1.NodeSelectorRequirement
	// Preferred terms to append.
	Preferred []corev1.PreferredSchedulingTerm
	// Gates are names of scheduling gates to add; who adds one removes it.
	Gates []string
}
