package pin

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// GivenUp is a reservation that a user gives up. Its object is gone seconds later, so the record remembers it.
type GivenUp struct {
	Pod string
	// UID is that of the pod that has ended.
	UID  types.UID
	Node string
	IPs  string
}

// Means reports whether the reservation is that of a record: of its life, on its node, with one of its addresses. A pod
// has further reservations for further interfaces, whose addresses are not recorded.
func (g GivenUp) Means(r appsv1beta1.PodState) bool {
	recorded := strings.Split(r.IPs, ",")
	return r.UID != "" && g.UID == r.UID && g.Node == r.NodeName && g.IPs != "" &&
		slices.ContainsFunc(strings.Split(g.IPs, ","), func(ip string) bool { return slices.Contains(recorded, ip) })
}

// giveUp notes in the records which addresses users gave up.
func giveUp(given []GivenUp, records map[string]appsv1beta1.PodState) {
	for _, g := range given {
		if r, recorded := records[g.Pod]; recorded && g.Means(r) {
			r.GivenUpUID = r.UID
			records[g.Pod] = r
		}
	}
}

// gaveUp reports whether a user gave up the addresses of a record. An earlier version of the controller leaves the UID of
// an earlier life in a record.
func gaveUp(r appsv1beta1.PodState) bool { return r.GivenUpUID != "" && r.GivenUpUID == r.UID }
