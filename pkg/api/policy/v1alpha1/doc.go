// Package v1alpha1 holds the policy.kruise.io/v1alpha1 API, as OpenKruise serves it. Three
// fields of v1beta1 are annotations here: protectOperations, protectTotalReplicas and
// ignoredPodSelector. The parts of a target may be missing in the schema; the webhook wants
// them. All other types are those of v1beta1.
//
// +kubebuilder:object:generate=true
// +groupName=policy.kruise.io
package v1alpha1
