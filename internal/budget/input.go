package budget

import (
	"time"

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
	// Serving: Running, Ready, not terminating, and not labelled unavailable.
	Serving bool
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
	// MaxUnavailable or MinAvailable is set.
	MaxUnavailable, MinAvailable *intstr.IntOrString
	// Rules are what the annotations and operations of the budget say.
	Rules Rules
	// Expected is the size of the workload. Unknown says why it could not be read; "" when it
	// was.
	Expected int32
	Unknown  string
	// Pods are the living pods that the budget covers, the pod of the request among them.
	Pods []Pod
	// Bare is how many of the pods no workload makes again. The size does not count such a pod when it is gone.
	Bare int
	// Exempt tells that the budget counts the pod of the request and does not protect it.
	Exempt bool
	// Leaves tells that the request takes the pod out of this budget, see Leaves.
	Leaves bool
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
	// Counts reports whether the status counts the pod of an entry as healthy, as far as it is known here.
	Counts func(ledger.Entry) bool
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
	Place   Place
	// Book holds the units that are in use.
	Book ledger.Book
}

// Entry is what the book shall hold when Decision.Take says so. A pod that has an entry
// keeps its Since, and a pod that goes is not turned into one that is changed.
func (in Input) Entry() ledger.Entry {
	e := ledger.Entry{
		UID: in.Pod.UID, Pod: in.Pod.Name, Use: ledger.Gone, Vector: string(in.Vector), By: user(in.By),
		Since: in.Now, Expires: in.Now.Add(ledger.Bound), Version: in.Version, Generation: in.Generation, Restarts: in.Restarts,
	}
	old, renewed := in.living()
	if renewed {
		e.Since = old.Since
	}
	if in.Vector.changes() && (!renewed || old.Use != ledger.Gone) {
		e.Use = ledger.Changed
	}
	return e
}

// Waiting is what the book shall hold of a refused request.
func (in Input) Waiting() ledger.Waiting {
	byWorkload := (in.Vector == Delete || in.Vector == ScaleIn) && mayControl(in.By)
	return ledger.Waiting{UID: in.Pod.UID, Pod: in.Pod.Name, By: user(in.By), Since: in.Now, Last: in.Now, ByWorkload: byWorkload}
}
