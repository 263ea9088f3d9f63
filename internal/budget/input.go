package budget

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/platform/ledger"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Pod is what budgets need to know of a pod. PodOf makes it.
type Pod struct {
	UID, Name string
	// Available: Serving for the stable time, and not Changing.
	Available bool
	// Changing: the kubelet has not seen the newest spec, and may restart containers for it.
	Changing bool
	// Serving: Running, Ready, not terminating, not labelled unavailable, and not OutOfService.
	Serving bool
	// OutOfService: the pod was taken out of service. Its kubelet may not have seen that yet.
	OutOfService bool
	// Ready is the condition alone, as PodDisruptionBudgets count it.
	Ready bool
	// Pending is the phase: PodDisruptionBudgets are not asked about such a pod.
	Pending bool
	// Finished: terminating, or in a terminal phase.
	Finished bool
	// Displaced tells that the pod has another address than the one that was kept for it. A
	// budget that keeps places does not count it as available.
	Displaced bool
}

// Budget is one budget with the facts about its pods.
type Budget struct {
	Name, UID string
	// Group is the group of pods that is meant, of a budget that Split divided.
	Group string
	// MaxUnavailable or MinAvailable is set.
	MaxUnavailable, MinAvailable *intstr.IntOrString
	// Rules are what the annotations and operations of the budget say.
	Rules Rules
	// Expected is the size of the workload. Unknown says why it could not be read; "" when it
	// was.
	Expected int32
	Unknown  string
	// Pods are the pods that the budget covers and that have not ended, also those that terminate. The pod of the
	// request is among them.
	Pods []Pod
	// Bare is how many of the pods no workload makes again. The size does not count such a pod when it is gone.
	Bare int
	// Exempt tells that the budget counts the pod of the request and does not protect it.
	Exempt bool
	// Leaves tells that the request takes the pod out of this budget, see Leaves.
	Leaves bool
	// Sites are the peers of a budget with federation; nil for none. Closed says why such a budget lets no pod go
	// now; "" where it may.
	Sites  *Sites
	Closed string
}

// Of returns what the object of a budget says. The caller adds the facts about the
// pods. After an error the valid part of the rules holds.
func Of(pub *policyv1beta1.PodUnavailableBudget) (Budget, error) {
	rules, err := RulesOf(pub)
	return Budget{
		Name: pub.Name, UID: string(pub.UID), Rules: rules,
		MaxUnavailable: pub.Spec.MaxUnavailable, MinAvailable: pub.Spec.MinAvailable,
	}, err
}

// PDB is a native PodDisruptionBudget that selects the pod. PDBsOf makes it.
type PDB struct {
	Name                                    string
	Allowed, CurrentHealthy, DesiredHealthy int32
	// Behind: the status is older than the spec.
	Behind bool
	// Disrupted are the names of the pods that the status has as disrupted.
	Disrupted map[string]metav1.Time
	// Healthy has the UIDs of the pods that the status counts as healthy, as far as it is known here.
	Healthy map[string]bool
	// AlwaysAllowUnhealthy is the unhealthyPodEvictionPolicy AlwaysAllow.
	AlwaysAllowUnhealthy         bool
	Selector                     *metav1.LabelSelector
	MaxUnavailable, MinAvailable *intstr.IntOrString
}

// Place is what is known of the place to which a rebuilt pod returns.
type Place struct {
	// Asked: the pod asks to keep its address or its node.
	Asked bool
	// Address says why the address would not be held; "" when it will be.
	Address string
	// Node says why no node could take the rebuilt pod; "" when one can.
	Node string
}

// Input are the facts about one request.
type Input struct {
	Now       time.Time
	Namespace string
	Vector    Vector
	Pod       Pod
	// Version and Generation of the pod, and how often its containers were restarted, as the request
	// has it. Clusters before Kubernetes 1.33 give pods no generation.
	Version              string
	Generation, Restarts int64
	// By is the user who asks.
	By string
	// ForUID is the UID that the request demands of the pod; "" when it names the pod alone.
	ForUID  string
	Budgets []Budget
	PDBs    []PDB // of evictions only
	// OutOfServiceFirst tells that the pod is out of service before it goes: it gets an entry also where no budget covers it.
	OutOfServiceFirst bool
	// DryRun tells that nothing will be written.
	DryRun bool
	Place  Place
	// Book holds the units that are in use.
	Book ledger.Book
}

// Entry is what the book shall hold when Decision.Take says so. A pod that has an entry
// keeps its Since.
func (in Input) Entry() ledger.Entry {
	e := ledger.Entry{
		UID: in.Pod.UID, Pod: in.Pod.Name, Use: ledger.Gone, Vector: string(in.Vector), By: user(in.By),
		Since: in.Now, Expires: in.Now.Add(ledger.Bound), Version: in.Version, Generation: in.Generation, Restarts: in.Restarts,
	}
	old, renewed := in.living()
	if renewed {
		e.Since = old.Since
	}
	if in.Vector.changes() && in.Vector != Leave { // a pod that leaves may be deleted by its new owner, or without one
		e.Use = ledger.Changed
	}
	return e
}

// Waiting is what the book shall hold of a refused request.
func (in Input) Waiting() ledger.Waiting {
	byWorkload := (in.Vector == Delete || in.Vector == ScaleIn) && mayControl(in.By)
	return ledger.Waiting{UID: in.Pod.UID, Pod: in.Pod.Name, By: user(in.By), Since: in.Now, Last: in.Now, ByWorkload: byWorkload}
}

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
