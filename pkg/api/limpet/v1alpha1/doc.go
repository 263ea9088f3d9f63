// Package v1alpha1 holds the limpet.dev/v1alpha1 API: what the agents report of the
// addresses on their nodes. The objects are mirrors. The truth is the state file of
// the node, no address is handed out by reading them, and losing them loses nothing.
//
// +kubebuilder:object:generate=true
// +groupName=limpet.dev
package v1alpha1

//go:generate go tool -modfile=../../../../tools/go.mod controller-gen object crd:crdVersions=v1 paths=. output:crd:dir=../../../../deploy/crds
