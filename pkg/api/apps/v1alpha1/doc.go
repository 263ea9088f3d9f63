// Package v1alpha1 holds the apps.kruise.io/v1alpha1 API as OpenKruise users know it. It
// is v1beta1 with one field under its former name, nodeTopologyKeys, and a retention
// policy that may be any word; everything else is v1beta1's own types.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1alpha1
