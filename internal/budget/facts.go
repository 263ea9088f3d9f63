package budget

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Verb is what a request does to a pod.
type Verb string

// Verbs.
const (
	VerbDelete Verb = "delete" // also each pod of a deletecollection
	VerbEvict  Verb = "evict"
	VerbUpdate Verb = "update"
	VerbResize Verb = "resize"
)

// OwnerState is what is known of the workload at the end of a pod's chain of controllers.
type OwnerState string

// States of an owner.
const (
	OwnerUnknown  OwnerState = ""
	OwnerLiving   OwnerState = "Living"
	OwnerDeleting OwnerState = "Deleting"
	OwnerGone     OwnerState = "Gone"
)

// Facts are what VectorOf needs to know of a request. A zero fact is the careful one: the
// request is then judged.
type Facts struct {
	Verb Verb
	// User is the name that the API server has authenticated.
	User string
	// ByLimpet tells that the user is this controller.
	ByLimpet bool
	// EndsNodes tells that the user is a program that ends nodes, and NodeDeleting that the pod's
	// node is being deleted.
	EndsNodes, NodeDeleting bool
	// Pod is the pod as the API server has it.
	Pod *corev1.Pod
	// Change is what an update or a resize does, see Disruptive.
	Change Change
	// Leaves tells that a change takes the pod out of a budget, or is Change.Reowned.
	Leaves bool
	// NamespaceDeleting: the namespace has a deletion timestamp.
	NamespaceDeleting bool
	// Owner is the state of the last owner of the chain: a ReplicaSet that a user deletes is
	// no teardown while its Deployment lives.
	Owner OwnerState
	// OwnerWants and OwnerHas are the replicas of the pod's nearest controller and the number
	// of its living pods; WorkloadWants are the replicas of the last owner of the chain, which
	// is the same object for a StatefulSet. 0, 0, 0 when they are not known.
	OwnerWants, OwnerHas, WorkloadWants int32
	// Intended: where the pod's controller deletes the pod, the workload asks for that. A Job deletes the pods of a
	// Job that has ended, and a Deployment with the strategy Recreate all pods before it makes new ones.
	Intended bool
	// Foreign: the pod's controller is of a kind outside Kubernetes, whose controller may be any service account.
	Foreign bool
	// Taints are all taints of the pod's node.
	Taints []corev1.Taint
}

// VectorOf tells in which way a pod goes. None means that the request takes no pod away.
//
// Vectors that are not judged are recognised by signs that a tenant cannot forge: the
// authenticated user, the taints of the node, and the deletion timestamps of the namespace
// and of the workload. The pod's condition DisruptionTarget is written by any user who may
// write the pod's status. It is believed only together with a user and a taint.
func VectorOf(f Facts) Vector {
	switch f.Verb {
	case VerbUpdate:
		return f.changed(Update)
	case VerbResize:
		return f.changed(Resize)
	case VerbDelete, VerbEvict:
	}
	switch {
	case f.NamespaceDeleting:
		return Teardown
	case f.ByLimpet:
		return Limpet
	case f.Verb == VerbEvict:
		return Evict
	}
	return f.deletion()
}

// changed is the vector of an update or a resize. A change that disrupts and leaves a
// budget has the vector of the disruption; Plan judges the leaving as well.
func (f *Facts) changed(v Vector) Vector {
	switch {
	case f.Change.Restarts, f.Change.Marks:
		return v
	case f.Leaves && !f.orphaned():
		return Leave
	}
	return None
}

// deletion is the vector of a plain DELETE.
func (f *Facts) deletion() Vector {
	if f.EndsNodes && f.NodeDeleting { // such a program evicts first, and deletes at the deadline
		return NodeEnd
	}
	switch f.User {
	case userScheduler: // deletes pods for preemption alone
		return Preemption
	case userPodGC:
		return PodGC
	case userNamespaces:
		return Teardown
	case userNodes: // since v1.29 its taint manager alone deletes pods
		return f.taint()
	case userDeviceTaints:
		return AdminTaint
	case userGarbage:
		// The garbage collector has looked for the owner itself. It is believed when the owner
		// cannot be read here, and not when the owner lives: a tenant can write an owner
		// reference with a wrong UID.
		if f.Owner != OwnerLiving {
			return Teardown
		}
	case userControllerManager:
		return f.shared()
	}
	if slices.Contains(workloadControllers, f.User) || f.Foreign && strings.HasPrefix(f.User, accounts) {
		return f.byWorkload()
	}
	return Delete
}

// byWorkload is the vector of a deletion by the pod's controller.
func (f *Facts) byWorkload() Vector {
	switch {
	case f.surplus():
		return ScaleIn
	case f.Intended:
		return Teardown
	}
	return Delete
}

// orphaned reports whether the garbage collector takes a pod from an owner that is deleted without its pods. The pod
// stays, and its workload asks for that.
func (f *Facts) orphaned() bool {
	ends := f.Owner == OwnerDeleting || f.Owner == OwnerGone
	return f.User == userGarbage && f.Owner != OwnerLiving || f.User == userControllerManager && ends
}

// shared is the vector of a deletion by a kube-controller-manager whose controllers share
// one user. Facts beside the user then tell the controllers apart.
func (f *Facts) shared() Vector {
	switch {
	case f.Owner == OwnerDeleting, f.Owner == OwnerGone:
		return Teardown
	case f.target() == reasonTaint:
		return f.taint()
	}
	return f.byWorkload()
}

// surplus reports whether the pod's controller has more pods than it wants, and wants all pods
// of the workload. The old ReplicaSet of a rollout also has more pods than it wants, but
// wants fewer than its Deployment: its pods are replaced. A workload whose size is not read,
// such as a Rollout, has no surplus.
func (f *Facts) surplus() bool {
	return f.Owner == OwnerLiving && f.OwnerHas > f.OwnerWants && f.OwnerWants >= f.WorkloadWants
}

// target is the reason of the pod's condition DisruptionTarget, if the condition is True.
func (f *Facts) target() string {
	if f.Pod == nil {
		return ""
	}
	for i := range f.Pod.Status.Conditions {
		c := &f.Pod.Status.Conditions[i]
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return c.Reason
		}
	}
	return ""
}
