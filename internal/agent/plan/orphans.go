package plan

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// neverReturn are the kinds that give each pod a new name, and what Strip leaves of them on a pod. The successor of such a pod
// is another owner, so that addresses reserved for it would be kept for no pod. The plugin knows names only, and cannot tell.
var neverReturn = map[schema.GroupKind][]metav1.OwnerReference{
	{Group: "apps", Kind: "ReplicaSet"}:        {{Kind: "ReplicaSet"}},
	{Group: "apps", Kind: "DaemonSet"}:         {{Kind: "DaemonSet"}},
	{Group: "batch", Kind: "Job"}:              {{Kind: kindJob}},
	{Group: "", Kind: "ReplicationController"}: {{Kind: "ReplicationController"}},
}

const kindJob = "Job"

// ownersOf returns what Strip keeps of the controller of a pod.
func ownersOf(p *corev1.Pod) []metav1.OwnerReference {
	owner := metav1.GetControllerOfNoCopy(p)
	if owner == nil || reservation.OwnerName("", p.Annotations) != "" { // a later pod comes back under the owner's name
		return nil
	}
	return neverReturn[schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind()]
}

// NeverReturns reports whether no later pod will have the name of a pod that was stripped.
func NeverReturns(p *corev1.Pod) bool { return len(p.OwnerReferences) > 0 }

// Cause says why a reservation ends before its time.
type Cause string

// The causes.
const (
	// CauseWorkload is a pod that ends, and never returns under its name: its end came before the agent had seen it.
	CauseWorkload Cause = "workload"
	// CauseNamespace is a namespace that is gone for longer than the grace.
	CauseNamespace Cause = "namespace"
	// CauseReleased is a user who gives the reservation up.
	CauseReleased Cause = "released"
)

// OrphansInput holds the reservations of a node, and what may end them.
type OrphansInput struct {
	Now          reservation.Moment
	Reservations []reservation.Reservation
	Pods         PodList // empty while they are not known
	// Gone says since when namespaces are terminating or gone.
	Gone map[string]time.Time
	// Grace is how long a namespace must be gone. A namespace that is created again earlier finds its
	// reservations.
	Grace time.Duration
	// Marks are the reservations that users give up.
	Marks []Mark
}

// Orphan is a reservation that no pod shall claim.
type Orphan struct {
	reservation.Reservation
	Cause Cause
}

// ending reports whether a pod gets no further sandbox. Until then an address that is reserved by its UID is its own. A pod of a
// Job mostly has completed: what the agent reads of a pod does not say.
func ending(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil || slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == kindJob })
}

// Orphans returns the reservations that end before their time. One on loan ends with its loan.
func Orphans(in OrphansInput) []Orphan {
	passing := map[types.UID]bool{}
	for i := range in.Pods.Items {
		if p := &in.Pods.Items[i]; NeverReturns(p) && ending(p) {
			passing[p.UID] = true
		}
	}
	var all []Orphan
	marks := make(map[reservation.Owner]Mark, len(in.Marks))
	for _, m := range in.Marks {
		marks[m.Owner] = m
	}
	for _, r := range in.Reservations {
		mark, marked := marks[r.Owner]
		since, gone := in.Gone[r.Owner.Namespace]
		switch {
		case r.OnLoan():
		case r.UID != "" && passing[types.UID(r.UID)]:
			all = append(all, Orphan{r, CauseWorkload})
		case gone && in.Now.Wall.Sub(since) >= in.Grace:
			all = append(all, Orphan{r, CauseNamespace})
		case marked && mark.means(r, in.Now):
			all = append(all, Orphan{r, CauseReleased})
		}
	}
	return all
}
