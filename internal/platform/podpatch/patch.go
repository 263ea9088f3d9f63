// Package podpatch describes what admission adds to a pod that is being created.
//
// Each planner returns a Patch as data. Merge combines the patches and refuses
// contradictions; Operations turns the result into a JSON patch.
package podpatch

import corev1 "k8s.io/api/core/v1"

// Patch is what one planner adds to a pod; the zero value adds nothing. A patch never
// removes or replaces what a user wrote. It removes only the planner's own annotations,
// which reach a new pod when its template was copied from a running pod.
type Patch struct {
	// Annotations to set.
	Annotations map[string]string
	// Labels to set.
	Labels map[string]string
	// Drop are annotations to remove. They are the planner's own, never the user's.
	Drop []string
	// Required is added to every term of the pod's required node affinity, because terms
	// are alternatives.
	Required []corev1.NodeSelectorRequirement
	// RequiredFields is added to every such term, too. It is about fields of a node, as its name.
	RequiredFields []corev1.NodeSelectorRequirement
	// Preferred terms to append.
	Preferred []corev1.PreferredSchedulingTerm
	// Tolerations to append, unless the pod has them.
	Tolerations []corev1.Toleration
	// Gates are names of scheduling gates to add. The feature that adds a gate removes it.
	Gates []string
	// ReadinessGates are names of conditions without which the pod is not Ready. The feature that adds one sets it.
	ReadinessGates []string
	// Strategic is a strategic merge patch in JSON, as users write it in a subset of a
	// workload. It is applied before the other fields; nil for none.
	Strategic []byte
}
