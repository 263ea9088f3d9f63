package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of this package's kinds.
var GroupVersion = schema.GroupVersion{Group: "limpet.dev", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(func(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &IPReservation{}, &IPReservationList{}, &NodeIPPool{}, &NodeIPPoolList{},
		&DisruptionBook{}, &DisruptionBookList{}, &NodeNetwork{}, &NodeNetworkList{}, &BorrowedAddress{}, &BorrowedAddressList{},
		&DistributedPodDisruptionBudget{}, &DistributedPodDisruptionBudgetList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
})

// AddToScheme registers this package's kinds in a scheme.
var AddToScheme = schemeBuilder.AddToScheme

// LabelNode is the label with the node whose agent alone writes the object: NodeLabel of its name.
const LabelNode = "limpet.dev/node"

// LabelRelease is the label of an IPReservation that its user gives up: Releases of its status. The agent of the
// node ends the reservation then.
const LabelRelease = "limpet.dev/release"
