package budget

import (
	"slices"

	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Vector is a way in which a pod goes away or becomes unavailable.
type Vector string

// Vectors, as users write them in the annotation limpet.dev/vectors.
const (
	// None: the request takes no pod away. No budget is asked.
	None       Vector = ""
	Evict      Vector = "evict"
	Delete     Vector = "delete"      // by a user, a script or a workload that replaces pods
	ScaleIn    Vector = "scale-in"    // by a workload that has more pods than it wants
	Update     Vector = "update"      // in place
	Resize     Vector = "resize"      // pods/resize
	Leave      Vector = "leave"       // a change of the pod after which a budget protects it no longer
	Preemption Vector = "preemption"  // by the scheduler
	Taint      Vector = "taint"       // by the taint manager, for an unreachable or not ready node
	AdminTaint Vector = "admin-taint" // by the taint manager, for any other taint
	PodGC      Vector = "pod-gc"
	NodeEnd    Vector = "node-end" // by a program such as Karpenter that ends the pod's node, at its deadline
	Teardown   Vector = "teardown" // the owner or the namespace is being deleted
	Limpet     Vector = "limpet"   // by the controller itself
	Lost       Vector = "lost"     // without a request: node pressure, power loss, a crash
)

// Vectors are all vectors, in the order of the documents.
var vectors = []Vector{
	Evict, Delete, ScaleIn, Update, Resize, Leave, Preemption, Taint, AdminTaint, PodGC, NodeEnd, Teardown, Limpet, Lost,
}

// Policy is what a budget does about a vector.
type Policy string

// Policies.
const (
	Check Policy = "Check" // refuse when no unit is left
	Allow Policy = "Allow" // allow, and account for it
)

// Default is the policy of a budget that says nothing about the vector.
//
// Preemption, taints of a dead node, PodGC, the end of a node and teardown are allowed: a refusal
// helps no pod, and holds up a more important pod, a node or a namespace.
func (v Vector) Default() Policy {
	switch v {
	case Preemption, Taint, PodGC, NodeEnd, Teardown, Lost:
		return Allow
	case None, Evict, Delete, ScaleIn, Update, Resize, Leave, AdminTaint, Limpet:
	}
	return Check
}

// refusable reports whether a budget may refuse the vector. A pod of PodGC has no node any
// more, and a lost pod is gone.
func (v Vector) refusable() bool { return v != PodGC && v != Lost && slices.Contains(vectors, v) }

// Operation is the request that brings the vector, in the words of protectOperations.
func (v Vector) Operation() policyv1beta1.Operation {
	switch v {
	case Evict:
		return policyv1beta1.OperationEvict
	case Update, Leave:
		return policyv1beta1.OperationUpdate
	case Resize:
		return policyv1beta1.OperationResize
	case None, Delete, ScaleIn, Preemption, Taint, AdminTaint, PodGC, NodeEnd, Teardown, Limpet, Lost:
	}
	return policyv1beta1.OperationDelete
}

// changes reports whether the pod stays and is changed in place.
func (v Vector) changes() bool { return v == Update || v == Resize || v == Leave }
