package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LoanPhase says how far a loan is.
//
// +kubebuilder:validation:Enum=Asked;Lent;Ending;Ended
type LoanPhase string

// BorrowedAddressSpec says which addresses are lent, and to which owner.
//
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the owner and the addresses of a loan do not change: delete the loan, which gives the addresses up"
type BorrowedAddressSpec struct {
	// pod is the name of the pod, or of its owner, which is in the namespace of this object. Written by the controller, like
	// all fields of the spec.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Pod string `json:"pod"`

	// interface is the name of the pod's interface.
	// +required
	// +kubebuilder:validation:MaxLength=15
	Interface string `json:"interface"`

	// network is the name of the CNI network.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Network string `json:"network"`

	// ips are the addresses of all families, separated by commas.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	IPs string `json:"ips"`
}

// BorrowedAddressStatus says which node may hand the addresses out.
//
// +kubebuilder:validation:XValidation:rule="self.epoch >= oldSelf.epoch",message="epoch grows"
// +kubebuilder:validation:XValidation:rule="self.epoch > oldSelf.epoch || has(self.borrower) == has(oldSelf.borrower) && (!has(self.borrower) || self.borrower == oldSelf.borrower)",message="epoch grows with each change of the borrower"
// +kubebuilder:validation:XValidation:rule="!has(self.borrower) || !has(oldSelf.borrower) || oldSelf.borrower == '?' || self.borrower == oldSelf.borrower",message="a borrower is removed before another one comes"
// +kubebuilder:validation:XValidation:rule="!has(self.borrower) || self.phase == 'Lent' || self.phase == 'Ending'",message="a loan with a borrower is Lent or Ending"
type BorrowedAddressStatus struct {
	// home is the node whose ranges have the addresses. Written by the controller.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Home string `json:"home"`

	// borrower is the node that may hand out the addresses to their owner: absent for none, "?" if only that node knows it.
	// Written by the controller; the borrower removes itself.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Borrower string `json:"borrower,omitempty"`

	// phase says how far the loan is. Asked: home shall lend. Lent: home hands the addresses out to no pod. Ending: the
	// borrower gives them back. Ended: home has them. Written by the controller and by home.
	// +required
	Phase LoanPhase `json:"phase"`

	// epoch tells one use of the addresses from the next. Written with the borrower.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=4611686018427387904
	Epoch int64 `json:"epoch"`

	// giveBack asks the borrower to give the addresses back. Written by the controller.
	// +optional
	GiveBack bool `json:"giveBack,omitempty"`

	// free tells home to free the addresses at the end, as the owner does not return. Written by the controller, and by
	// home when another pod has an address.
	// +optional
	Free bool `json:"free,omitempty"`

	// since is when the phase or the borrower changed last. Written with them.
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// BorrowedAddress is a loan: a pod that asks for limpet.dev/retention "follow" has an address of another node.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=borrowedaddresses,shortName=ba
// +kubebuilder:printcolumn:name="POD",type=string,JSONPath=`.spec.pod`
// +kubebuilder:printcolumn:name="IPS",type=string,JSONPath=`.spec.ips`
// +kubebuilder:printcolumn:name="HOME",type=string,JSONPath=`.status.home`
// +kubebuilder:printcolumn:name="NODE",type=string,JSONPath=`.status.borrower`
// +kubebuilder:printcolumn:name="PHASE",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="SINCE",type=date,JSONPath=`.status.since`
type BorrowedAddress struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which addresses are lent. Users do not write BorrowedAddresses.
	// +required
	Spec BorrowedAddressSpec `json:"spec"`

	// status says which node may hand the addresses out. It has no subresource: a loan begins with a status.
	// +required
	Status BorrowedAddressStatus `json:"status"`
}

// BorrowedAddressList is a list of BorrowedAddresses.
//
// +kubebuilder:object:root=true
type BorrowedAddressList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the objects of the list.
	// +required
	Items []BorrowedAddress `json:"items"`
}
