// Package disruptions proves from the audit log of an API server that budgets were kept.
//
// Check replays all changes of pods, workloads and budgets. A log conforms if no voluntary
// disruption took a budget below what must be available, unless an involuntary loss came
// first, and if no request was refused while units were free for longer than a replacement
// takes. The package counts on its own: it shares no code with the controller.
package disruptions

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Event is one request that the API server has answered.
type Event struct {
	// Received and Done are the times of the request and of its answer. The change was written
	// between them.
	Received, Done time.Time
	// Version is the resource version of the object in the answer; 0 when the answer has none.
	// One etcd gives all objects their versions, so versions order all changes.
	Version uint64
	User    string
	Groups  []string
	// Verb, Resource, Subresource, Namespace and Name are of the request.
	Verb, Resource, Subresource, Namespace, Name string
	Code                                         int
	DryRun                                       bool
	// Open tells that a webhook gave no answer in time, and that the API server let the request pass.
	Open bool
	// Message is the text of a refusal.
	Message string

	// UID is the pod of an answer that shows the pod without a version; empty where it shows none.
	UID string

	// Pod, Workload, Budget and Node are the object after the change; at most one is set.
	Pod      *Pod
	Workload *Workload
	Budget   *Budget
	Node     *Node
}

// Pod is what matters of a pod.
type Pod struct {
	UID, Namespace, Name, Node string
	Labels                     map[string]string
	// Unprotected: the pod is marked so that no budget protects it.
	Unprotected bool
	Owner       Owner
	// Others are the UIDs of the owners beside the controller.
	Others []string
	// KeepsPlace: the pod asks to keep its address, and so its node.
	KeepsPlace bool
	Ready      bool
	ReadySince time.Time
	Deleting   bool
	// Created and Deleted are when the pod was created and its deletion was asked for, in whole seconds; zero where the
	// object does not tell.
	Created, Deleted time.Time
	// Pending: no container of the pod has started.
	Pending bool
	// Finished: the pod is in a terminal phase.
	Finished bool
	// Infeasible: the kubelet will not make the last resize.
	Infeasible bool
	// Images are the images of the containers; a change of them restarts containers.
	Images string
	// Runs identifies the running containers; it changes when a container was restarted.
	Runs string
}

// Owner is the controller of a pod or of a workload; empty for none.
type Owner struct {
	UID, Group, Kind, Name string
}

// Workload is an object with a size.
type Workload struct {
	UID, Namespace, Group, Kind, Name string
	Owner                             Owner
	Labels                            map[string]string // of the template
	Replicas                          int
	Deleting, Gone                    bool
	// Recreate: it is a Deployment that deletes all pods of a former template before it makes others.
	Recreate bool
	// ScaleOnly: only UID and Replicas are known, from the scale subresource.
	ScaleOnly bool
}

// Budget is a PodUnavailableBudget.
type Budget struct {
	UID, Namespace, Name         string
	Selector                     *metav1.LabelSelector
	Target                       Owner // without a UID
	Ignored                      *metav1.LabelSelector
	MaxUnavailable, MinAvailable *intstr.IntOrString
	// Total replaces the size of the workload; 0 for none.
	Total int
	// IgnoreScale takes the number of covered pods for the size of the workload.
	IgnoreScale bool
	// Operations that the budget protects; nil means all.
	Operations []string
	// Vectors are the policies that differ from the defaults.
	Vectors map[Vector]string
	// KeepPlace refuses to disrupt pods that would lose their place.
	KeepPlace bool
	// ProtectUnready refuses to disrupt pods that run and are not Ready while too few are available.
	ProtectUnready bool
	// Stable is how long a pod must be Ready to be available.
	Stable time.Duration
	Gone   bool
}

// Node is what matters of a node.
type Node struct {
	Name string
	// Taints are the keys of the taints with the effect NoExecute.
	Taints   []string
	Deleting bool
	// Unschedulable: the node takes no further pods.
	Unschedulable bool
}
