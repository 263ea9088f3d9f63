// Package v1beta1 holds the apps.kruise.io/v1beta1 API: PersistentPodState, which says
// that a rebuilt pod returns to the place it had.
//
// It is the version that objects are stored in and that every other package works with.
// v1alpha1 is served beside it and differs in names alone.
//
// Names, JSON tags and the meaning of every field are those of the original, so that
// existing manifests work unchanged. What Limpet adds is optional and additive:
// conditions and rebuilds in the status, columns, a short name and the checks that the
// API server makes by itself.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1beta1

//go:generate go tool -modfile=../../../../tools/go.mod controller-gen object crd:crdVersions=v1 paths=../v1alpha1 paths=. output:crd:dir=../../../../deploy/crds
