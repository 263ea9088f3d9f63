package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// NodeNetworkName is the only name that a NodeNetwork may have: it is that of the network of own mode.
const NodeNetworkName = "limpet"

// RangeUse says what a node does with one of its ranges.
//
// +kubebuilder:validation:Enum=Instead;Further;Retired
type RangeUse string

const (
	// RangeInstead is the use of a range that pods get addresses of instead of the pod CIDR.
	RangeInstead RangeUse = "Instead"
	// RangeFurther is the use of a range that pods get addresses of beside the pod CIDR.
	RangeFurther RangeUse = "Further"
	// RangeRetired is the use of a range that new pods get no address of.
	RangeRetired RangeUse = "Retired"
)

const (
	// ConditionConfigured is True while a node has the settings of the NodeNetwork, False also while it has another network.
	ConditionConfigured = "Configured"
	// ConditionApplied is True while all nodes have the settings of the NodeNetwork.
	ConditionApplied = "Applied"

	// ReasonApplied is the reason of Configured and Applied while they are True.
	ReasonApplied = "Applied"
	// ReasonNodeNetworkDeleted is the reason of Configured after the NodeNetwork was deleted: its settings stay.
	ReasonNodeNetworkDeleted = "NodeNetworkDeleted"
	// ReasonForeignNetwork is the reason of Configured while the network configuration of another network comes first.
	ReasonForeignNetwork = "ForeignNetwork"
	// ReasonSharedAddresses is the reason of Configured while another node has addresses of this node.
	ReasonSharedAddresses = "SharedAddresses"
	// ReasonMTUTooLarge is the reason of Configured while the MTU is larger than that of the node's own interface.
	ReasonMTUTooLarge = "MTUTooLarge"
	// ReasonNoRange is the reason of Configured while the node would have no range, or a further one alone.
	ReasonNoRange = "NoRange"
	// ReasonRefused is the reason of Configured while limpet-ipam would refuse the settings.
	ReasonRefused = "Refused"
	// ReasonFailed is the reason of Configured while the network configuration cannot be written.
	ReasonFailed = "Failed"
	// ReasonFailing is the reason of Applied while a node cannot have its settings.
	ReasonFailing = "Failing"
	// ReasonPending is the reason of Applied while a node has not answered yet.
	ReasonPending = "Pending"
	// ReasonNoNodes is the reason of Applied while no node reports: no agent is the network of its node.
	ReasonNoNodes = "NoNodes"
)

// NodeNetworkSpec holds the settings of the nodes whose network Limpet is (--network=own).
//
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.ranges) || oldSelf.ranges.all(o, o.use == 'Retired' || has(self.ranges) && self.ranges.exists(r, r.cidr == o.cidr && r.node == o.node))",message="ranges: a range may be removed, or given to another node, only after its use was Retired. Remedy: set use to Retired, wait until no pod has an address of the range, then remove it"
type NodeNetworkSpec struct {
	// mtu is the MTU of new pods on nodes of no group. Without it the kernel chooses. It may not be larger than that of
	// the interface with the node's internal IP.
	// +optional
	// +kubebuilder:validation:Minimum=1280
	// +kubebuilder:validation:Maximum=65535
	MTU int32 `json:"mtu,omitempty"`

	// groups are nodes with other settings. The first group whose selector matches a node counts there.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Groups []NodeGroup `json:"groups,omitempty"`

	// ranges are addresses of single nodes. A node without ranges uses its pod CIDRs alone.
	// +optional
	// +listType=map
	// +listMapKey=cidr
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.all(b, a.cidr == b.cidr || !cidr(a.cidr).containsIP(cidr(b.cidr).ip())))",message="ranges may not overlap: two pods would get one address. Remedy: give each node addresses that no other range has"
	Ranges []NodeRange `json:"ranges,omitempty"`
}

// NodeGroup holds the settings of some nodes.
type NodeGroup struct {
	// name is the name of the group in messages.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// nodeLabels are the labels that a node of the group has, all of them.
	// +required
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=8
	NodeLabels map[string]string `json:"nodeLabels"`

	// mtu is the MTU of new pods on nodes of the group.
	// +required
	// +kubebuilder:validation:Minimum=1280
	// +kubebuilder:validation:Maximum=65535
	MTU int32 `json:"mtu"`
}

// NodeRange gives addresses to one node.
type NodeRange struct {
	// cidr is the range, such as 10.200.1.0/24 or fd00:200:1::/64. It may not overlap with a pod CIDR.
	// +required
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked() && cidr(self).ip().isGlobalUnicast() && cidr(self).prefixLength() <= (cidr(self).ip().family() == 4 ? 30 : 126)",message="must be a network of unicast addresses without host bits, at most /30 or /126. Remedy: write it as 10.200.1.0/24 or fd00:200:1::/64"
	CIDR string `json:"cidr"`

	// node is the name of the node. It may join later.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`

	// use is Further: new pods get an address of this range or of the pod CIDR of the family. Instead: they get none of
	// the pod CIDR. Retired: they get none of this range, and pods that have one keep it until they end.
	// +optional
	// +kubebuilder:default=Further
	Use RangeUse `json:"use,omitempty"`
}

// NodeNetworkStatus says which nodes have the settings. The leader of the controller writes it, a few times a minute
// at the most, from the condition Configured of the NodeIPPools.
type NodeNetworkStatus struct {
	// observedGeneration is the generation of the settings that the numbers are about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// nodes is the number of nodes whose agents report.
	// +optional
	Nodes int32 `json:"nodes"`

	// applied is the number of nodes that have these settings.
	// +optional
	Applied int32 `json:"applied"`

	// failing is the number of nodes that cannot have these settings. They keep those that they had before.
	// +optional
	Failing int32 `json:"failing"`

	// failures are the first 10 of the failing nodes, by name.
	// +optional
	// +listType=map
	// +listMapKey=node
	// +kubebuilder:validation:MaxItems=10
	Failures []NodeFailure `json:"failures,omitempty"`

	// conditions are Applied: all nodes that report have these settings.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeFailure says why a node cannot have its settings.
type NodeFailure struct {
	// node is the name of the node.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Node string `json:"node"`

	// reason is the reason of the condition Configured of the node.
	// +required
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason"`

	// message is the beginning of its message.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}

// NodeNetwork holds what the agents write into the network configurations of their nodes, where Limpet is the network.
// There is one, of the name limpet.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=nodenet
// +kubebuilder:validation:XValidation:rule="self.metadata.name == 'limpet'",message="metadata.name must be limpet, the name of the network: there is one NodeNetwork in a cluster"
// +kubebuilder:printcolumn:name="NODES",type=integer,JSONPath=`.status.nodes`
// +kubebuilder:printcolumn:name="APPLIED",type=integer,JSONPath=`.status.applied`
// +kubebuilder:printcolumn:name="FAILING",type=integer,JSONPath=`.status.failing`
// +kubebuilder:printcolumn:name="STATE",type=string,JSONPath=`.status.conditions[?(@.type=="Applied")].reason`
// +kubebuilder:printcolumn:name="MESSAGE",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Applied")].message`
// +kubebuilder:printcolumn:name="AGE",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeNetwork struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds the settings.
	// +required
	Spec NodeNetworkSpec `json:"spec"`

	// status says which nodes have the settings.
	// +optional
	Status NodeNetworkStatus `json:"status,omitempty"`
}

// NodeNetworkList is a list of NodeNetworks.
//
// +kubebuilder:object:root=true
type NodeNetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the objects of the list.
	// +required
	Items []NodeNetwork `json:"items"`
}
