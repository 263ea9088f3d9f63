package netconf

import (
	"encoding/json"
	"reflect"
)

// file is the part of the network configuration that concerns an IPAM plugin. A delegating
// plugin hands over its whole own configuration. The comments of the keys stand in docs/operate/reference.md.
type file struct {
	// CNIVersion is the form of the result, from 0.1.0 to 1.1.0.
	CNIVersion string `json:"cniVersion"`
	// Name is the name of the network. Addresses, owners and reservations belong to one network.
	Name string `json:"name"`
	// Type is the interface plugin. Below bridge, a pod with an address of another node gets routes of its own.
	Type string `json:"type"`
	// IsDefaultGateway is a key of bridge: the pod gets a default route.
	IsDefaultGateway bool `json:"isDefaultGateway"`
	// Bridge is a key of bridge. With ipam.sharedNetwork, this bridge leads to the other nodes.
	Bridge string `json:"bridge"`
	// VLAN is a key of bridge, which ipam.sharedNetwork refuses.
	VLAN json.RawMessage `json:"vlan"`
	// Master is a key of macvlan. With ipam.sharedNetwork, this interface leads to the other nodes.
	Master string `json:"master"`
	// PrevResult is the result of the ADD. CHECK compares with it, and DEL tells the end of a pod by it.
	PrevResult json.RawMessage `json:"prevResult"`
	// ValidAttachments are the attachments that a GC keeps.
	ValidAttachments json.RawMessage `json:"cni.dev/valid-attachments"`
	// Capabilities are those that the runtime fills in. With `ipRanges`, a STATUS needs no range.
	Capabilities json.RawMessage `json:"capabilities"`
	// RuntimeConfig is what the runtime fills in for the declared capabilities.
	RuntimeConfig struct {
		// Annotations are the annotations of the pod, with the capability of the same name.
		Annotations map[string]string `json:"io.kubernetes.cri.pod-annotations"`
		// IPs are requested addresses, with the capability `ips`.
		IPs []string `json:"ips"`
		// IPRanges are range sets before those of `ipam.ranges`, with the capability `ipRanges`.
		IPRanges [][]rangeKeys `json:"ipRanges"`
	} `json:"runtimeConfig"`
	// Args are arguments of the runtime.
	Args struct {
		// CNI is the part of the arguments that the conventions of CNI describe.
		CNI struct {
			// IPs are requested addresses.
			IPs []string `json:"ips"`
			// Retain stands for the annotation of this name where the pod's annotations have none.
			Retain json.RawMessage `json:"io.kubernetes.cri/reserved-ip-duration"`
			// Mode stands for the annotation of this name where the pod's annotations have none.
			Mode json.RawMessage `json:"limpet.dev/retention"`
			// Owner stands for the annotation of this name where the pod's annotations have none.
			Owner json.RawMessage `json:"limpet.dev/owner"`
		} `json:"cni"`
	} `json:"args"`
	// IPAM is the section of limpet-ipam.
	IPAM *ipamKeys `json:"ipam"`
}

// ipamKeys are the keys under ipam.
type ipamKeys struct {
	rangeKeys // the one range of old configurations
	// Ranges are the range sets. A pod gets one address of each set; the ranges inside a set are alternatives.
	Ranges [][]rangeKeys `json:"ranges"`
	// Routes are part of the result: a list of objects with `dst` and `gw`. Only ADD may fail on them.
	Routes json.RawMessage `json:"routes"`
	// DataDir is the directory of the state, an absolute path.
	DataDir string `json:"dataDir"`
	// ResolvConf is a file in the form of resolv.conf, which is part of the result as DNS.
	ResolvConf string `json:"resolvConf"`

	// MaxReservation is the longest reservation, a duration. A pod that asks for more gets this.
	MaxReservation string `json:"maxReservation"`
	// MaxReservedPercent is the part of the pool that reservations may hold; 0 for no reservations.
	MaxReservedPercent *int `json:"maxReservedPercent"`
	// MaxReservedPerNamespace is for how many pods of one namespace addresses may be reserved.
	MaxReservedPerNamespace *int64 `json:"maxReservedPerNamespace"`
	// MaxReservedPercentPerNamespace is the part of the pool that reservations of one namespace may hold.
	MaxReservedPercentPerNamespace *int `json:"maxReservedPercentPerNamespace"`
	// OnExhaustion says whether a reservation ends early when there is no room: `reclaim` or `refuse`.
	OnExhaustion string `json:"onExhaustion"`
	// ReleaseDelay is how long a released address is not given to another owner while others are free, a duration.
	ReleaseDelay string `json:"releaseDelay"`
	// PredecessorWait is how long a rebuilt pod waits for its predecessor's network namespace to go, a duration.
	PredecessorWait string `json:"predecessorWait"`
	// AddWait is how long one ADD waits for its predecessor's network namespace to go, a duration.
	AddWait string `json:"addWait"`
	// LockWait is how long a verb waits for the lock of the state, a duration.
	LockWait string `json:"lockWait"`
	// MirrorHostLocal keeps host-local's files beside the state, so that host-local sees which addresses are taken.
	MirrorHostLocal bool `json:"mirrorHostLocal"`
	// Node is the name of the node. An ADD on the home of its address does not wait for a loan.
	Node string `json:"node"`
	// SharedNetwork says that all nodes with a network of this name are on one L2 segment, each with a part of one subnet:
	// addresses can follow their pods. It needs bridge without vlan, or macvlan with master.
	SharedNetwork bool `json:"sharedNetwork"`
	// LogFile is the file of the verbs' log lines, an absolute path, or `none`.
	LogFile string `json:"logFile"`
	// LogMaxBytes is the size at which the log file is rotated.
	LogMaxBytes *int64 `json:"logMaxBytes"`
}

// rangeKeys are the keys of one range.
type rangeKeys struct {
	// Subnet is the network of the range, as a CIDR.
	Subnet string `json:"subnet"`
	// RangeStart is the first address to hand out. The default is the first of the subnet.
	RangeStart string `json:"rangeStart"`
	// RangeEnd is the last address to hand out. The default is the last before the broadcast address.
	RangeEnd string `json:"rangeEnd"`
	// Gateway is part of the result, and never handed out. The default is the first address of the subnet.
	Gateway string `json:"gateway"`
}

// Keys is the type whose JSON keys docs/use/annotations.md documents.
func Keys() reflect.Type { return reflect.TypeFor[file]() }
