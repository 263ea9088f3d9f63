package pin

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/fit"
)

// Life is one pod of a name that the controller has seen on a node.
type Life struct {
	UID     types.UID
	Node    string
	Created time.Time
}

// clockTolerance is how much earlier than the record a life may have been created that counts
// as later. The times are of two clocks and in full seconds.
const clockTolerance = time.Second

// Proven returns the holders that may overrule the record of a pod. An IPReservation is the
// word of its node alone, which could claim the addresses of any pod and so attract the pod.
// So the holder's life must have been seen on that node, must not be older than the record,
// and must be the last one of all holders whose nodes are Ready. The recorded node needs no
// proof. lives are those that were seen, in the order of their ends.
func Proven(holders []Holder, nodes map[string]*corev1.Node, record appsv1beta1.PodState, lives []Life) []Holder {
	seen := func(h Holder) int {
		for i, life := range slices.Backward(lives) {
			if life.Node == h.Node && (h.UID == "" || h.UID == life.UID) {
				return i
			}
		}
		return -1
	}
	ready := func(h Holder) bool { return nodes[h.Node] != nil && fit.Ready(nodes[h.Node]) }
	var proven []Holder
	for _, h := range holders {
		i := seen(h)
		outlived := slices.ContainsFunc(holders, func(o Holder) bool { return seen(o) > i && (ready(o) || !ready(h)) })
		stale := i >= 0 && record.RecordedAt != nil && lives[i].Created.Add(clockTolerance).Before(record.RecordedAt.Time)
		if h.Node == record.NodeName || i >= 0 && !outlived && !stale {
			proven = append(proven, h)
		}
	}
	return proven
}
