package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

const (
	// ConditionExhausted is True while every address of a range set is attached or reserved.
	ConditionExhausted = "Exhausted"
	// ConditionShareReached is True while reservations hold all of their share of the pool.
	ConditionShareReached = "ShareReached"

	// ReasonAddressesFree is the reason of Exhausted while it is False.
	ReasonAddressesFree = "AddressesFree"
	// ReasonRangesUnknown is the reason of Exhausted while it is Unknown.
	ReasonRangesUnknown = "RangesUnknown"
	// ReasonNoneFree is the reason of Exhausted while it is True.
	ReasonNoneFree = "NoneFree"
	// ReasonShareLeft is the reason of ShareReached while it is False.
	ReasonShareLeft = "ShareLeft"
	// ReasonNoneAllowed is the reason of ShareReached while it is False because the share is 0.
	ReasonNoneAllowed = "NoneAllowed"
	// ReasonShareUsedUp is the reason of ShareReached while it is True.
	ReasonShareUsedUp = "ShareUsedUp"
)

// NodeIPPoolStatus counts the addresses of one network on one node, in pods. A pod takes one
// address of each range set, so the smallest range set is the size of the pool.
type NodeIPPoolStatus struct {
	// node is the name of the node. Written by the agent of the node, like all fields of the
	// status.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`

	// network is the name of the CNI network.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Network string `json:"network"`

	// ranges are the range sets of the network, as first and last address of each range;
	// unset while the ranges are unknown. Of more than 16 sets the first are shown, and none of more
	// than 1024 characters.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=1024
	Ranges []string `json:"ranges,omitempty"`

	// total is the number of pods that the pool has addresses for; 0 while the ranges are
	// unknown.
	// +required
	Total int64 `json:"total"`

	// attached is the number of pods that use addresses.
	// +required
	Attached int64 `json:"attached"`

	// reserved is the number of reservations: pods that have ended and whose addresses are
	// kept.
	// +required
	Reserved int64 `json:"reserved"`

	// reservedUntil is when the last reservation has ended, in steps of ten minutes; unset without one.
	// +optional
	ReservedUntil *metav1.Time `json:"reservedUntil,omitempty"`

	// lent is the number of those reservations whose addresses are lent to other nodes.
	// +optional
	Lent int64 `json:"lent,omitempty"`

	// guests is the number of pods here that use, or may come back to, addresses of other nodes. They count nowhere else.
	// +optional
	Guests int64 `json:"guests,omitempty"`

	// sharedNetwork tells that all nodes with a network of this name are on one L2 segment, between which addresses follow
	// their pods.
	// +optional
	SharedNetwork bool `json:"sharedNetwork,omitempty"`

	// share is the largest number of reservations at a time; unset until a pod has been
	// started by a version of the plugin that limits it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Share *int64 `json:"share,omitempty"`

	// free is the number of further pods that the pool has addresses for.
	// +required
	Free int64 `json:"free"`

	// stateSince is when the state of the node was begun; unset if its file system does not tell.
	// The state does not have earlier reservations, unless the agent found them in the API.
	// +optional
	StateSince *metav1.Time `json:"stateSince,omitempty"`

	// agentVersion is the version of the agent of the node.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	AgentVersion string `json:"agentVersion,omitempty"`

	// pluginVersion is the version of limpet-ipam on the node, as the installed program tells it.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	PluginVersion string `json:"pluginVersion,omitempty"`

	// conditions are Exhausted: no address is free; ShareReached: reservations hold all of
	// their share.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeIPPool shows how many addresses of a network are in use on a node.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="NODE",type=string,JSONPath=`.status.node`
// +kubebuilder:printcolumn:name="NETWORK",type=string,JSONPath=`.status.network`
// +kubebuilder:printcolumn:name="TOTAL",type=integer,JSONPath=`.status.total`
// +kubebuilder:printcolumn:name="ATTACHED",type=integer,JSONPath=`.status.attached`
// +kubebuilder:printcolumn:name="RESERVED",type=integer,JSONPath=`.status.reserved`
// +kubebuilder:printcolumn:name="LENT",type=integer,JSONPath=`.status.lent`,priority=1
// +kubebuilder:printcolumn:name="GUESTS",type=integer,JSONPath=`.status.guests`,priority=1
// +kubebuilder:printcolumn:name="SHARE",type=integer,JSONPath=`.status.share`
// +kubebuilder:printcolumn:name="FREE",type=integer,JSONPath=`.status.free`
type NodeIPPool struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// status is written by the agent of the node. There is no spec: users do not write
	// NodeIPPools.
	// +required
	Status NodeIPPoolStatus `json:"status"`
}

// NodeIPPoolList is a list of NodeIPPools.
//
// +kubebuilder:object:root=true
type NodeIPPoolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the objects of the list.
	// +required
	Items []NodeIPPool `json:"items"`
}
