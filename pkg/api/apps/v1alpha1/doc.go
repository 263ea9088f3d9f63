// Package v1alpha1 holds the apps.kruise.io/v1alpha1 API as OpenKruise users know
// it: PersistentPodState, which says that a rebuilt pod returns to the place it had.
//
// Names, JSON tags and the meaning of every field are those of the original, so that
// existing manifests and stored objects work unchanged. What Limpet adds is optional
// and additive: conditions in the status, columns, a short name and the checks that
// the API server makes by itself.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1alpha1

//go:generate go tool -modfile=../../../../tools/go.mod controller-gen object crd:crdVersions=v1 paths=. output:crd:dir=../../../../deploy/crds
