package plan

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Network is what the state file of a node says about one network.
type Network struct {
	Name string
	// Sets are the range sets. They are unknown, and nil, between the rebuild of a lost
	// state file and the next CNI verb.
	Sets         []ipam.Set
	Attachments  []reservation.Attachment
	Reservations []reservation.Reservation
	// Limits bound the reservations; nil until a verb has stored them.
	Limits *reservation.Limits
	// Since is when the state was begun; nil if the file system does not tell.
	Since *metav1.Time
	// Configured tells how the node took the settings of the NodeNetwork, or that it has another network; else nil.
	Configured *metav1.Condition
	// Shared tells that nodes share the network, so that its addresses can follow their pods.
	Shared bool
}
