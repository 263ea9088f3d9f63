package console

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/platform/workload"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// ReleaseParts are the facts that PlanRelease needs, of one namespace.
var ReleaseParts = []facts.Part{facts.Kept, facts.Pods}

// ReleaseOutcome is what became of one reservation.
type ReleaseOutcome string

// The outcomes.
const (
	// Releasable is a reservation that would be released: nothing was asked yet.
	Releasable ReleaseOutcome = "Releasable"
	// Asked means that the agent of the node is asked, and has not answered.
	Asked ReleaseOutcome = "Asked"
	// Freed means that the addresses are not reserved any more.
	Freed ReleaseOutcome = "Freed"
	// InUse means that a pod has the addresses. They are never released.
	InUse ReleaseOutcome = "InUse"
	// Replaced means that the addresses have another reservation meanwhile: the pod had returned.
	Replaced ReleaseOutcome = "Replaced"
)

// Release is one IPReservation that a user gives up.
type Release struct {
	Name    string         `json:"name"`
	Pod     string         `json:"pod"`
	Node    string         `json:"node"`
	Network string         `json:"network"`
	IPs     string         `json:"ips"`
	Until   *metav1.Time   `json:"until,omitempty"`
	UID     types.UID      `json:"-"`
	Mark    string         `json:"-"` // value of the label that names the reservation
	Outcome ReleaseOutcome `json:"outcome"`
	Message string         `json:"message,omitempty"`
}

// ReleaseReport is what becomes of the reservations that a user gives up.
type ReleaseReport struct {
	Namespace    string    `json:"namespace"`
	Selector     string    `json:"selector,omitempty"`
	DryRun       bool      `json:"dryRun,omitempty"`
	Reservations []Release `json:"reservations"`
	// Places are the recorded places that are given up too, where the user asks for that.
	Places []Place `json:"places,omitempty"`
}

// ReleaseQuery names reservations of one namespace.
type ReleaseQuery struct {
	// Names are pods or addresses. Each must have a reservation.
	Names []string
	// All means all reservations of the namespace.
	All bool
	// Selector means the reservations of the pods with these labels; nil for none. PlanRelease needs the StatefulSets then.
	Selector labels.Selector
	// Node restricts the query to one node; empty for all nodes.
	Node string
	// Forget gives up the recorded places of the pods, too.
	Forget bool
}

// PlanRelease chooses the reservations to release. Addresses that a pod has are listed if the query names them, and are
// not released.
func PlanRelease(f *facts.Facts, namespace string, q ReleaseQuery) (ReleaseReport, error) {
	r := ReleaseReport{Namespace: namespace, Reservations: []Release{}}
	if q.Selector != nil {
		r.Selector = q.Selector.String()
	}
	for i := range f.Reservations {
		o := &f.Reservations[i]
		named := slices.ContainsFunc(q.Names, func(name string) bool { return holds(o, name) })
		switch mark := o.Status.Releases(); {
		case q.Node != "" && o.Status.Node != q.Node, !named && (!q.all(f, o) || mark == "" && (!read(f, facts.Pods) || f.Pod(o.Namespace, o.Status.Pod) != nil)):
		default:
			r.Reservations = append(r.Reservations, releaseOf(f, o, mark))
		}
	}
	if q.Forget {
		var err error
		if r.Places, err = planForget(f, namespace, q, r.Reservations); err != nil {
			return r, err
		}
	}
	for _, name := range q.Names {
		reserved := slices.ContainsFunc(f.Reservations, func(o limpetv1alpha1.IPReservation) bool {
			return holds(&o, name) && (q.Node == "" || o.Status.Node == q.Node)
		})
		if !reserved && !slices.ContainsFunc(r.Places, func(p Place) bool { return p.Pod == name }) {
			return r, fmt.Errorf("nothing is reserved for %s in namespace %s: check the name, --namespace and --node, or see kubectl get ipreservations", name, namespace)
		}
	}
	slices.SortFunc(r.Reservations, func(a, b Release) int { return strings.Compare(a.Name, b.Name) })
	return r, nil
}

// holds reports whether a user means an object by a name: its pod, or one of its addresses.
func holds(o *limpetv1alpha1.IPReservation, name string) bool {
	return o.Status.Pod == name || slices.Contains(strings.Split(o.Status.IPs, ","), name)
}

func releaseOf(f *facts.Facts, o *limpetv1alpha1.IPReservation, mark string) Release {
	s := o.Status
	r := Release{Name: o.Name, Pod: s.Pod, Node: s.Node, Network: s.Network, IPs: s.IPs, Until: s.Until, UID: o.UID, Mark: mark, Outcome: Releasable}
	pod := f.Pod(o.Namespace, s.Pod)
	switch {
	case mark == "" && !read(f, facts.Pods):
		r.Outcome, r.Message = InUse, "pod "+s.Pod+" has the addresses, or has just ended; "+f.Unknown(facts.Pods)
	case mark == "" && pod == nil:
		r.Outcome, r.Message = InUse, "pod "+s.Pod+" is gone, and its agent has not shown the end yet: try again in 10 s"
	case mark == "":
		r.Outcome, r.Message = InUse, "pod "+s.Pod+" has the addresses: delete the pod first"
	case o.Labels[limpetv1alpha1.LabelRelease] == mark:
		r.Message = "the release was asked for before"
	case pod != nil && !workload.Ended(pod):
		r.Message = "pod " + s.Pod + " exists (" + PodState(pod) + "), and gets other addresses unless it claims these first"
	}
	return r
}

// Count returns how many reservations have one of some outcomes.
func (r ReleaseReport) Count(outcomes ...ReleaseOutcome) (n int) {
	for _, one := range r.Reservations {
		if slices.Contains(outcomes, one.Outcome) {
			n++
		}
	}
	return n
}

// Pods returns how many pods lose a reservation or a place.
func (r ReleaseReport) Pods() int {
	pods := map[string]bool{}
	for _, one := range r.Reservations {
		if one.Outcome == Releasable {
			pods[one.Pod] = true
		}
	}
	for _, p := range r.Places {
		if p.Outcome == Releasable {
			pods[p.Pod] = true
		}
	}
	return len(pods)
}

// Follow compares the reservations that the agents were asked for with what the API shows now.
func (r *ReleaseReport) Follow(f *facts.Facts) {
	r.followForget(f)
	now := map[types.UID]*limpetv1alpha1.IPReservation{}
	for i := range f.Reservations {
		now[f.Reservations[i].UID] = &f.Reservations[i]
	}
	for i := range r.Reservations {
		one := &r.Reservations[i]
		if one.Outcome != Asked {
			continue
		}
		switch o := now[one.UID]; {
		case o == nil:
			one.Outcome, one.Message = Freed, ""
		case o.Status.State == limpetv1alpha1.IPAttached:
			one.Outcome, one.Message = InUse, "pod "+one.Pod+" has returned and has the addresses: nothing was released"
		case o.Status.Releases() != one.Mark:
			one.Outcome, one.Message = Replaced, "the reservation has another end since it was read: release it again"
		}
	}
}

// GiveUp says of what was not answered what may be the reason.
func (r *ReleaseReport) GiveUp() {
	for i := range r.Reservations {
		if one := &r.Reservations[i]; one.Outcome == Asked {
			one.Message = "limpet-agent on node " + one.Node + " has not ended the reservation: the agent may be away, or have a program or ClusterRole of an earlier version, " +
				"and ends it when it can; kubectl limpet status shows the agent"
		}
	}
	for i := range r.Places {
		if p := &r.Places[i]; p.Outcome == Asked {
			p.Message = "limpet-controller has not forgotten the place: the pod may be back, or the controller away or of an earlier version"
		}
	}
}
