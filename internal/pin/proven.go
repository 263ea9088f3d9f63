package pin

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Life is one pod of a name that the controller has seen on a node.
type Life struct {
	UID     types.UID
	Node    string
	Created time.Time
	// Seen is when the controller last saw it.
	Seen time.Time
}

// clockTolerance is how much earlier than the record a life may have been created that counts
// as later. The times are of two clocks and in full seconds.
const clockTolerance = time.Second

// Proven returns the holders that may overrule the record of a pod. Only its node
// vouches for an IPReservation, and could claim the addresses of any pod and so attract the pod.
// So the holder must name the last life that was seen of the pod, on the node where it was
// seen, and that life must not be older than the record. Its time is that of the controller,
// not of the node. The recorded node needs no proof. last is nil if no life was seen.
func Proven(holders []Holder, record appsv1beta1.PodState, last *Life) []Holder {
	stale := last != nil && record.RecordedAt != nil && last.Created.Add(clockTolerance).Before(record.RecordedAt.Time)
	var proven []Holder
	for _, h := range holders {
		sighted := last != nil && !stale && h.UID != "" && h.UID == last.UID && h.Node == last.Node
		if sighted {
			h.Seen = last.Seen
		}
		if sighted || h.Node == record.NodeName {
			proven = append(proven, h)
		}
	}
	return proven
}
