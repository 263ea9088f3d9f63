// Package v1beta1 holds the policy.kruise.io/v1beta1 API: PodUnavailableBudget, which limits
// how many pods of an application are unavailable at a time.
//
// Objects are stored in this version, and every other package works with it. The API server
// serves v1alpha1 beside it, see package v1alpha1.
//
// Names, JSON tags and meanings of all fields are OpenKruise's, so existing manifests work
// unchanged. Limpet's additions are optional: annotations, and fields of the status.
//
// +kubebuilder:object:generate=true
// +groupName=policy.kruise.io
package v1beta1

//go:generate go tool -modfile=../../../../tools/go.mod controller-gen object crd:crdVersions=v1 paths=../v1alpha1 paths=. output:crd:dir=../../../../deploy/crds
//go:generate go run -C ../../../../tools ./crdtimes ../deploy/crds
