package pin

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/platform/fit"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// Holder is a node that holds the addresses of a pod.
type Holder struct {
	Node string
	// UID of the life of the pod that has the addresses, or had them last; "" if unknown.
	UID types.UID
	// Seen is a moment at which that life had the addresses: when the reservation began, or
	// when the attachment was first shown. Only the node says so, until Proven replaces it.
	Seen time.Time
	// IPs are the addresses of the primary interface; "" if they are not shown.
	IPs string
}

// primary is the interface whose addresses are in the status of a pod. Other interfaces
// belong to further networks.
const primary = "eth0"

// Holders returns the nodes that hold the addresses of a pod, from the IPReservations of its
// name. The most likely last node comes first: the node where the pod is attached, else the
// node that keeps its addresses longest. Nodes that are not Ready come after all others,
// because their IPReservations may be long out of date.
func Holders(reservations []limpetv1alpha1.IPReservation, nodes map[string]*corev1.Node, now time.Time) []Holder {
	var held []*limpetv1alpha1.IPReservation
	for i := range reservations {
		if r := &reservations[i]; r.Status.Until == nil || r.Status.Until.After(now) {
			held = append(held, r)
		}
	}
	rank := func(s *limpetv1alpha1.IPReservationStatus) (rank int) {
		if s.Until != nil {
			rank++
		}
		if node := nodes[s.Node]; node == nil || !fit.Ready(node) {
			rank += 2
		}
		return rank
	}
	slices.SortStableFunc(held, func(a, b *limpetv1alpha1.IPReservation) int {
		if order := cmp.Compare(rank(&a.Status), rank(&b.Status)); order != 0 || a.Status.Until == nil {
			return order
		}
		return b.Status.Until.Compare(a.Status.Until.Time)
	})
	var holders []Holder
	for _, r := range held {
		if !Holds(holders, r.Status.Node) {
			holders = append(holders, Holder{
				Node: r.Status.Node, UID: types.UID(r.Status.PodUID), Seen: seen(r), IPs: addressesBeside(held, r.Status),
			})
		}
	}
	return holders
}

// addressesBeside returns the addresses of the primary interface of the same life on the
// same node.
func addressesBeside(held []*limpetv1alpha1.IPReservation, s limpetv1alpha1.IPReservationStatus) string {
	for _, r := range held {
		if r.Status.Node == s.Node && r.Status.PodUID == s.PodUID && r.Status.Interface == primary {
			return r.Status.IPs
		}
	}
	return ""
}

func seen(r *limpetv1alpha1.IPReservation) time.Time {
	if r.Status.Until == nil {
		return r.CreationTimestamp.Time
	}
	return r.Status.Until.Add(-time.Duration(r.Status.RetainMinutes) * time.Minute)
}

// Holds reports whether a node is among the holders.
func Holds(holders []Holder, node string) bool {
	return slices.ContainsFunc(holders, func(h Holder) bool { return h.Node == node })
}

// NewerHolder returns the node that the pod was on last, if that is not the recorded node:
// either nothing is recorded, or a holder is provably newer than the record. It returns ""
// when the record stands. A recorded node that shows no reservation proves nothing, because
// IPReservations may get lost.
func NewerHolder(s *appsv1beta1.PersistentPodState, pod string, holders []Holder) string {
	if s == nil || len(holders) == 0 {
		return ""
	}
	record := s.Status.PodStates[pod]
	for _, h := range holders {
		switch {
		case h.Node == record.NodeName:
			return ""
		case record.NodeName == "" || newer(h, record):
			return h.Node
		}
	}
	return ""
}

// newer reports whether a holder is of a later life than the recorded one. A former life ended
// before the record, or later if its pod was deleted by force on a silent node; the UIDs of
// such lives are recorded.
func newer(h Holder, record appsv1beta1.PodState) bool {
	return record.RecordedAt != nil && h.Seen.After(record.RecordedAt.Time) &&
		h.UID != "" && h.UID != record.UID && !slices.Contains(record.FormerUIDs, h.UID)
}

// RestoreRecord returns the state with a record of the pod on the node that holds its
// addresses, as if the record had not been lost. A recorded required place stays, since it
// may be required for other things than an address. Where the retention policy has ended the
// record, the pod returns to its addresses, but no place is required.
func RestoreRecord(s *appsv1beta1.PersistentPodState, pod string, node *corev1.Node, holders []Holder) *appsv1beta1.PersistentPodState {
	record := s.Status.PodStates[pod]
	if term := s.Spec.RequiredPersistentTopology; term != nil {
		for _, key := range term.Keys {
			if value, recorded := record.NodeTopologyLabels[key]; recorded && value != node.Labels[key] {
				return s
			}
		}
	}
	out := s.DeepCopy()
	if record.NodeName == "" && s.Spec.PersistentPodStateRetentionPolicy == appsv1beta1.RetainWhenScaled {
		out.Spec.RequiredPersistentTopology = nil
	}
	if out.Status.PodStates == nil {
		out.Status.PodStates = map[string]appsv1beta1.PodState{}
	}
	record.NodeName, record.NodeTopologyLabels = node.Name, topology(out, node)
	for _, h := range holders {
		if h.Node == node.Name {
			record.UID, record.IPs = h.UID, h.IPs
		}
	}
	out.Status.PodStates[pod] = record
	return out
}

// Restored returns the input with the record by which the pod returns, if that is not the one of the state: that of its home, of
// the home of its address, or of the node that holds its addresses of a later life. Held are the nodes that hold them, proven
// those that may overrule the record.
func Restored(in Input, held, proven []Holder, nodes map[string]*corev1.Node) Input {
	name := in.Pod.Name
	home, newest := Homeward(in.State, in.Pod, nodes[HomeNode(in.State, name)], held, in.Now), nodes[NewerHolder(in.State, name, proven)]
	switch {
	case Follows(in.Pod):
		in.State = AtAddressHome(in.State, in.Pod, held, nodes)
	case home != in.State:
		in.State = home
	case newest != nil:
		in.State = RestoreRecord(in.State, name, newest, proven)
		in.Recalled = RecordedNode(in.State, name) == newest.Name
	}
	in.Holds = Holds(held, RecordedNode(in.State, name))
	return in
}

// Remembered returns a pod's record. Where none is recorded, it is the record of the life by
// which the webhook found the pod's node, if any.
func Remembered(record appsv1beta1.PodState, pod *corev1.Pod) appsv1beta1.PodState {
	name := pod.Annotations[AnnotationRecalled]
	if record.NodeName != "" || name == "" {
		return record
	}
	record.NodeName, record.NodeTopologyLabels = name, maps.Clone(placeOf(pod))
	if uid, ips, ok := strings.Cut(pod.Annotations[AnnotationFormer], " "); ok {
		record.UID, record.IPs = types.UID(uid), ips
	}
	return record
}

// recreationGrace is how much later than a pod its PersistentPodState may be created for the
// pod to count as returned in between. A former state has reported any other pod.
const recreationGrace = time.Minute

// former returns the record with which a Ready pod is compared.
func former(in RecordInput, record appsv1beta1.PodState, pod *corev1.Pod) appsv1beta1.PodState {
	if record.NodeName != "" || in.State.CreationTimestamp.Sub(pod.CreationTimestamp.Time) > recreationGrace {
		return record
	}
	if record = Remembered(record, pod); record.NodeName != "" {
		record.RetainSeconds = retainSeconds(in, pod)
	}
	return record
}

// topology returns the values that a node has for the wanted keys.
func topology(s *appsv1beta1.PersistentPodState, node *corev1.Node) map[string]string {
	var values map[string]string
	for _, key := range Keys(s) {
		if value, ok := node.Labels[key]; ok {
			set(&values, key, value)
		}
	}
	return values
}
