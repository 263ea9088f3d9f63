package plan_test

import (
	"net/netip"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var now = reservation.Moment{Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), BootID: "boot", Up: 10 * time.Hour}

func ago(d time.Duration) reservation.Moment {
	return reservation.Moment{Wall: now.Wall.Add(-d), BootID: now.BootID, Up: now.Up - d}
}

// attached returns an attachment of pod web-0 that is an hour old.
func attached(change ...func(*reservation.Attachment)) reservation.Attachment {
	a := reservation.Attachment{
		ID:    reservation.AttachmentID{Network: "net", ContainerID: "c", IfName: "eth0"},
		Owner: reservation.Owner{Network: "net", Namespace: "default", Pod: "web-0", IfName: "eth0"},
		UID:   "uid", Since: ago(time.Hour), AnnotationsSeen: true,
	}
	for _, c := range change {
		c(&a)
	}
	return a
}

var addrs = []netip.Addr{netip.MustParseAddr("10.1.0.2"), netip.MustParseAddr("fd00::2")}

// sets make a pool of 5 pods: the IPv4 set has 5 addresses, apart from its gateway.
func sets(t testing.TB) []ipam.Set {
	t.Helper()
	sets, err := ipam.CompleteSets([]ipam.Set{
		{{Subnet: netip.MustParsePrefix("10.1.0.0/29")}}, {{Subnet: netip.MustParsePrefix("fd00::/64")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return sets
}

// reserved returns a reservation of 10 minutes for web-0 that has run for a while.
func reserved(since time.Duration, change ...func(*reservation.Reservation)) reservation.Reservation {
	r := reservation.Reservation{
		Owner: attached().Owner, UID: "uid", Addresses: addrs, Retain: 10 * time.Minute,
		Deadline: reservation.Deadline{From: ago(since), For: 10 * time.Minute},
	}
	for _, c := range change {
		c(&r)
	}
	return r
}
