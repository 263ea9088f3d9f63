// Package v1alpha1 holds the limpet.dev/v1alpha1 API, with which node agents report the
// addresses on their nodes. The objects are copies of the node's state file. No address is
// handed out by reading an object, and agents write lost objects again.
//
// +kubebuilder:object:generate=true
// +groupName=limpet.dev
package v1alpha1

//go:generate go tool -modfile=../../../../tools/go.mod controller-gen object crd:crdVersions=v1 paths=. output:crd:dir=../../../../deploy/crds
//go:generate mv ../../../../deploy/crds/limpet.dev_nodenetworks.yaml ../../../../deploy/node-network/limpet.dev_nodenetworks.yaml
//go:generate go run -C ../../../../tools ./crdtimes ../deploy/crds
//go:generate go run -C ../../../../tools ./crdtimes ../deploy/node-network
