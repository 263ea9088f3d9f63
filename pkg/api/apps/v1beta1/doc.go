// Package v1beta1 holds the apps.kruise.io/v1beta1 API: PersistentPodState, with which
// rebuilt pods return to the place they had, and WorkloadSpread, which spreads the pods of a
// workload over subsets of nodes.
//
// Objects are stored in this version, and every other package works with it. The API server
// serves v1alpha1 beside it, see package v1alpha1.
//
// Names, JSON tags and meanings of all fields are OpenKruise's, so existing manifests work
// unchanged. Limpet's additions are optional: two fields of WorkloadSpread, fields of the
// status, columns, a short name, and validation by the API server.
//
// +kubebuilder:object:generate=true
// +groupName=apps.kruise.io
package v1beta1

//go:generate go tool -modfile=../../../../tools/go.mod controller-gen object crd:crdVersions=v1 paths=../v1alpha1 paths=. output:crd:dir=../../../../deploy/crds
//go:generate go run -C ../../../../tools ./crdtimes ../deploy/crds
