package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// BudgetShare is the share of a budget in the units of one group of peers. Only the controller changes
// it, and only with a write of the book of the namespace, from which it is copied.
type BudgetShare struct {
	// budget is the name of the budget; only in a book.
	// +optional
	// +kubebuilder:validation:MaxLength=300
	Budget string `json:"budget,omitempty"`

	// uid of the budget; only in a book.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// spec is a hash of what the spec said about peers; only in a book.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Spec string `json:"spec,omitempty"`

	// group is a hash of the peers and of the number that they divide.
	// +required
	// +kubebuilder:validation:MaxLength=32
	Group string `json:"group"`

	// nonce is a random text. A share that was lost, or closed, has another one afterwards.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Nonce string `json:"nonce,omitempty"`

	// agreement is a hash of the nonces of all peers.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Agreement string `json:"agreement,omitempty"`

	// open tells that the peers agree, so that the units may be used.
	// +optional
	Open bool `json:"open,omitempty"`

	// least tells that numbers are how many pods must be available, and not how many may be unavailable.
	// +optional
	Least bool `json:"least,omitempty"`

	// base is the number at the beginning of the agreement.
	// +optional
	Base int32 `json:"base,omitempty"`

	// units are those that went to each peer and came from it.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=17
	Units []PeerUnits `json:"units,omitempty"`

	// number is how many pods may be unavailable, or must be available, by this share. Only in a status.
	// +optional
	Number int32 `json:"number,omitempty"`

	// short is how many pods are away beyond the share. Only in a status.
	// +optional
	Short int32 `json:"short,omitempty"`

	// waitingSince is when the oldest request was refused that waits for a unit. Only in a status.
	// +optional
	WaitingSince *metav1.Time `json:"waitingSince,omitempty"`

	// waitingPod is the pod that it is for. Only in a status.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	WaitingPod string `json:"waitingPod,omitempty"`
}

// PeerUnits are the units that went to a peer, and came from it, since the beginning of an agreement.
type PeerUnits struct {
	// site is the cluster, namespace and name of the peer.
	// +required
	// +kubebuilder:validation:MaxLength=600
	Site string `json:"site"`

	// nonce of the peer in this agreement.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Nonce string `json:"nonce,omitempty"`

	// sent is how many units went to the peer.
	// +optional
	Sent int64 `json:"sent,omitempty"`

	// taken is how many units came from the peer.
	// +optional
	Taken int64 `json:"taken,omitempty"`
}

// FederatedStatus is what a peer shows.
type FederatedStatus struct {
	// site is the cluster, namespace and name of the peer.
	// +required
	// +kubebuilder:validation:MaxLength=600
	Site string `json:"site"`

	// currentHealthy is how many of its pods are available.
	// +optional
	CurrentHealthy int32 `json:"currentHealthy,omitempty"`

	// expectedPods is how many pods its workloads want.
	// +optional
	ExpectedPods int32 `json:"expectedPods,omitempty"`

	// disruptionsAllowed is how many of its pods may become unavailable.
	// +optional
	DisruptionsAllowed int32 `json:"disruptionsAllowed,omitempty"`

	// share is how many of its pods may be unavailable, or must be available, by the units that it has.
	// +optional
	Share int32 `json:"share,omitempty"`

	// waitingSince is when the oldest request was refused there that waits for a unit.
	// +optional
	WaitingSince *metav1.Time `json:"waitingSince,omitempty"`

	// problem says why nothing is known of the peer.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Problem string `json:"problem,omitempty"`
}
