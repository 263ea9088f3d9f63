// Package v1alpha1 holds the apps.kruise.io/v1alpha1 API, as OpenKruise serves it.
//
// A PersistentPodState differs from v1beta1 in two fields: keys is named nodeTopologyKeys, and
// the retention policy may have any value. A WorkloadSpread differs in three:
// requiredNodeSelector is named requiredNodeSelectorTerm, preferredNodeSelector is named
// preferredNodeSelectorTerms, and conditions of subsets may lack a reason. All other types are
// those of v1beta1.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1alpha1
