package reservation_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/pkg/reservation"
)

func lent(r reservation.Reservation) reservation.Reservation {
	r.Mode, r.Lent = reservation.Follow, 7
	return r
}

// TestRebuiltLoansAreUnconfirmed rebuilds a state with a reservation that follows: the ADD that claims it may have been lost.
func TestRebuiltLoansAreUnconfirmed(t *testing.T) {
	for _, complete := range []bool{true, false} {
		guest := kept(2, 2)
		guest.Mode, guest.Guest, guest.BootID = reservation.Follow, 8, "b"
		ended := at("c1", "a", 9, 1)
		ended.Mode, ended.Since.BootID = reservation.Follow, "b"
		d := reservation.PlanRebuild(reservation.RebuildInput{
			Now: now, Read: reservation.Records{Reservations: []reservation.Reservation{guest}, Attachments: of(ended)}, Complete: complete,
			Alive: func(reservation.Attachment) bool { return false },
		})
		if len(d.Attachments) != 1 || (d.Attachments[0].Since.BootID == "b") != complete {
			t.Errorf("complete %t: %+v", complete, d.Attachments)
		}
		if len(d.Reservations) != 1 || d.Reservations[0].Guest != 8 || (d.Reservations[0].BootID == "b") != complete {
			t.Errorf("complete %t: %+v", complete, d.Reservations)
		}
	}
}

// TestALifeThatIsSeenIsOfThisBoot has a pod that runs, and that the result cache of libcni knows alone. A life of an earlier boot
// would be over: its address could be lent while the pod has it.
func TestALifeThatIsSeenIsOfThisBoot(t *testing.T) {
	for _, alive := range []bool{true, false} {
		life := at("c1", "a", 2, 0)
		life.Mode, life.Since = reservation.Follow, reservation.Moment{Wall: now.Wall}
		d := reservation.PlanRebuild(reservation.RebuildInput{Now: now, Seen: of(life), Alive: func(reservation.Attachment) bool { return alive }})
		if len(d.Attachments) != 1 || (d.Attachments[0].Since.BootID == now.BootID) != alive {
			t.Errorf("alive %t: %+v", alive, d.Attachments)
		}
	}
}

// TestPlanRebuild says which source wins when the sources disagree. Records are written "name address"; a number
// behind the address is the Seq.
func TestPlanRebuild(t *testing.T) {
	for name, tc := range map[string]struct {
		read, unreferenced, seen []reservation.Attachment
		found                    []reservation.Attachment
		readReserved             []reservation.Reservation
		unreferencedReserved     []reservation.Reservation
		complete                 bool
		alive                    string // names of containers
		want                     string // holders and addresses, in the order of names
	}{
		"records that were read stay": {
			read: of(at("c1", "a", 2, 1)), readReserved: []reservation.Reservation{kept(3, 2)}, complete: true,
			want: "c1=2 reserved b=3",
		},
		"only the sources of the node are left": {
			seen: of(at("c1", "a", 2, 0), at("c2", "b", 3, 0)), alive: "c1",
			want: "c1=2 c2=3",
		},
		"a live container wins over an outdated reservation": {
			seen: of(at("c9", "x", 2, 0)), readReserved: []reservation.Reservation{kept(2, 2)}, complete: true, alive: "c9",
			want: "c9=2",
		},
		"what is lent wins over a live container": {
			seen: of(at("c9", "x", 2, 0)), readReserved: []reservation.Reservation{lent(kept(2, 2))}, complete: true, alive: "c9",
			want: "reserved b=2",
		},
		"and stays beside a newer life of its owner": {
			read: of(at("c1", "b", 4, 9)), readReserved: []reservation.Reservation{lent(kept(2, 2))}, complete: true, alive: "c1",
			want: "c1=4 reserved b=2",
		},
		"also what was lent at some time": {
			unreferencedReserved: []reservation.Reservation{lent(kept(2, 2))},
			want:                 "reserved b=2",
		},
		"a reservation wins over a container that is gone": {
			seen: of(at("c1", "a", 2, 0)), readReserved: []reservation.Reservation{kept(2, 2)}, complete: true,
			want: "reserved b=2",
		},
		"a reservation that its owner has claimed is gone": {
			seen: of(at("c2", "b", 2, 0)), readReserved: []reservation.Reservation{kept(2, 2)}, complete: true, alive: "c2",
			want: "c2=2",
		},
		"an owner that took other addresses has no reservation": {
			seen: of(at("c2", "b", 4, 0)), readReserved: []reservation.Reservation{kept(2, 2)}, complete: true, alive: "c2",
			want: "c2=4",
		},
		"an older life that still runs does not end the reservation of a newer one": {
			read: of(at("c1", "b", 4, 1)), seen: of(at("c1", "b", 4, 0)), readReserved: []reservation.Reservation{kept(2, 2)}, complete: true, alive: "c1",
			want: "c1=4 reserved b=2",
		},
		"an unreferenced attachment counts when its namespace lives": {
			unreferenced: of(at("c1", "a", 2, 1), at("c2", "b", 3, 2)), alive: "c1",
			want: "c1=2",
		},
		"an unreferenced reservation counts when the tree had holes": {
			unreferencedReserved: []reservation.Reservation{kept(2, 2)},
			want:                 "reserved b=2",
		},
		"an unreferenced reservation does not count beside a complete tree": {
			unreferencedReserved: []reservation.Reservation{kept(2, 2)}, complete: true,
			want: "",
		},
		"an unreferenced reservation that has lapsed does not count": {
			unreferencedReserved: []reservation.Reservation{lapsed(kept(2, 2))},
			want:                 "",
		},
		"a record that was read wins over an unreferenced one of the same owner": {
			readReserved: []reservation.Reservation{kept(2, 5)}, unreferencedReserved: []reservation.Reservation{kept(3, 2)},
			want: "reserved b=2",
		},
		"an address in a namespace is held": {
			found: of(at("netns:/p", "", 2, 0)), alive: "netns:/p",
			want: "netns:/p=2",
		},
		"an address in a namespace that is explained is not held twice": {
			found: of(at("netns:/p", "", 2, 0)), seen: of(at("c1", "a", 2, 0)), alive: "netns:/p c1",
			want: "c1=2",
		},
		"an address in another namespace than that of its earlier holder, which lives": {
			read: of(in(7, at("c1", "a", 2, 1))), found: of(in(8, at("netns:/p", "", 2, 0))), alive: "netns:/p c1",
			want: "netns:/p=2",
		},
		"the same in frames of a journal with holes": {
			unreferenced: of(in(7, at("c1", "a", 2, 1))), found: of(in(8, at("netns:/p", "", 2, 0))), alive: "netns:/p c1",
			want: "netns:/p=2",
		},
		"a complete state knows better": {
			read: of(in(7, at("c1", "a", 2, 1))), found: of(in(8, at("netns:/p", "", 2, 0))), alive: "netns:/p c1", complete: true,
			want: "c1=2",
		},
		"an address that is in both namespaces": {
			read: of(in(7, at("c1", "a", 2, 1))), found: of(in(8, at("netns:/p", "", 2, 0)), in(7, at("netns:/q", "", 2, 0))), alive: "netns:/p netns:/q c1",
			want: "c1=2",
		},
		"an address in another namespace, of a network that overlaps": {
			read: of(in(7, at("c1", "a", 2, 1)), in(8, overlapping(at("c2", "b", 2, 2)))), found: of(in(8, at("netns:/p", "", 2, 0))), alive: "netns:/p c1 c2",
			want: "c1=2 c2=2",
		},
		"the newer of two that are gone had the address last": {
			seen: of(at("c1", "a", 2, 0), at("c2", "a", 2, 0)),
			want: "c2=2",
		},
		"of two living containers with one address one holds it": {
			seen: of(at("c1", "a", 2, 0), at("c2", "b", 2, 0)), alive: "c1 c2",
			want: "c2=2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := reservation.PlanRebuild(reservation.RebuildInput{
				Now: rebuildNow, Complete: tc.complete, Seen: tc.seen, Placeholders: tc.found,
				Read:         reservation.Records{Attachments: tc.read, Reservations: tc.readReserved},
				Unreferenced: reservation.Records{Attachments: tc.unreferenced, Reservations: tc.unreferencedReserved},
				Alive: func(a reservation.Attachment) bool {
					return slices.Contains(strings.Fields(tc.alive), a.ID.ContainerID)
				},
			})
			if diff := cmp.Diff(tc.want, holders(d)); diff != "" {
				t.Errorf("holders (-want +got):\n%s\ndropped: %q", diff, d.Dropped)
			}
		})
	}
}

// TestRebuildOfNetworksThatOverlap has two networks with the same range in one state. The network of an address in a
// namespace is not known: the address is held in both, unless a container of the namespace explains it.
func TestRebuildOfNetworksThatOverlap(t *testing.T) {
	in := func(network string, namespace uint64, a reservation.Attachment, more ...byte) reservation.Attachment {
		a.ID.Network, a.Owner.Network, a.NetNS.Inode = network, network, namespace
		for _, ip := range more {
			a.Addresses = append(a.Addresses, netip.AddrFrom4([4]byte{10, 0, 0, ip}))
		}
		return a
	}
	found := func(namespace uint64, ips ...byte) []reservation.Attachment {
		a := at(fmt.Sprintf("netns:/%d", namespace), "", ips[0], 0)
		return of(in("m", namespace, a, ips[1:]...), in("n", namespace, a, ips[1:]...))
	}
	for name, tc := range map[string]struct {
		seen, found []reservation.Attachment
		want        string
	}{
		"an address that a container explains is held once": {
			seen: of(in("m", 1, at("c1", "a", 2, 0))), found: found(1, 2), want: "m c1=2",
		},
		"a container of each network explains its own": {
			seen: of(in("m", 1, at("c1", "a", 2, 0)), in("n", 2, at("c2", "b", 2, 0))), found: slices.Concat(found(1, 2), found(2, 2)), want: "m c1=2, n c2=2",
		},
		"a container of the other network, which no source knows": {
			seen: of(in("m", 1, at("c1", "a", 2, 0))), found: slices.Concat(found(1, 2), found(2, 2)), want: "m c1=2, n netns:/2=2",
		},
		"its other addresses are held where they are free": {
			seen: of(in("m", 1, at("c1", "a", 2, 0))), found: slices.Concat(found(1, 2), found(2, 2, 3)), want: "m c1=2, m netns:/2=3, n netns:/2=2+3",
		},
		"no source knows either container": {
			found: slices.Concat(found(1, 2), found(2, 2, 3)), want: "m netns:/1=2, m netns:/2=3, n netns:/1=2, n netns:/2=3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := reservation.PlanRebuild(reservation.RebuildInput{
				Now: rebuildNow, Seen: tc.seen, Placeholders: tc.found, Alive: func(reservation.Attachment) bool { return true },
			})
			var got []string
			for _, a := range d.Attachments {
				var ips []string
				for _, addr := range a.Addresses {
					ips = append(ips, fmt.Sprint(addr.As4()[3]))
				}
				got = append(got, fmt.Sprintf("%s %s=%s", a.ID.Network, a.ID.ContainerID, strings.Join(ips, "+")))
			}
			slices.Sort(got)
			if diff := cmp.Diff(tc.want, strings.Join(got, ", ")); diff != "" {
				t.Errorf("(-want +got):\n%s\ndropped: %q", diff, d.Dropped)
			}
		})
	}
}

// TestRebuiltLivesKeepTheirOrder numbers attachments that the state did not have above all its records, unless they
// have ended.
func TestRebuiltLivesKeepTheirOrder(t *testing.T) {
	in := reservation.RebuildInput{
		Read: reservation.Records{Attachments: of(at("c1", "a", 2, 7))}, Complete: true,
		Seen:  of(at("old", "a", 3, 0), at("new", "a", 4, 0), at("c1", "a", 2, 0)),
		Alive: func(a reservation.Attachment) bool { return a.ID.ContainerID != "old" },
	}
	seq := map[string]uint64{}
	for _, a := range reservation.PlanRebuild(in).Attachments {
		seq[a.ID.ContainerID] = a.Seq
	}
	if diff := cmp.Diff(map[string]uint64{"old": 0, "c1": 7, "new": 8}, seq); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

var rebuildNow = reservation.Moment{Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), BootID: "b", Up: time.Hour}

func of(a ...reservation.Attachment) []reservation.Attachment { return a }

func at(container, pod string, ip byte, seq uint64) reservation.Attachment {
	a := reservation.Attachment{ID: reservation.AttachmentID{Network: "n", ContainerID: container, IfName: "eth0"}, Seq: seq}
	a.Owner = reservation.Owner{Network: "n", IfName: "eth0", Pod: pod}
	if pod != "" {
		a.Owner.Namespace = "ns"
	}
	a.Addresses = []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, ip})}
	return a
}

// in gives an attachment a network namespace.
func in(inode uint64, a reservation.Attachment) reservation.Attachment {
	a.NetNS.Inode = inode
	return a
}

// overlapping moves an attachment to another network.
func overlapping(a reservation.Attachment) reservation.Attachment {
	a.ID.Network, a.Owner.Network = "m", "m"
	return a
}

// kept returns a reservation of pod b.
func kept(ip byte, seq uint64) reservation.Reservation {
	a := at("", "b", ip, seq)
	return reservation.Reservation{Owner: a.Owner, Addresses: a.Addresses, Seq: seq, Deadline: reservation.Deadline{From: rebuildNow, For: time.Minute}}
}

func lapsed(r reservation.Reservation) reservation.Reservation {
	r.Deadline.From.Up -= time.Hour
	return r
}

// holders lists the holders and their addresses.
func holders(d reservation.RebuildDecision) string {
	var all []string
	for _, a := range d.Attachments {
		all = append(all, a.ID.ContainerID+"="+last(a.Addresses))
	}
	slices.Sort(all)
	for _, r := range d.Reservations {
		all = append(all, "reserved "+r.Owner.Pod+"="+last(r.Addresses))
	}
	return strings.Join(all, " ")
}

func last(addrs []netip.Addr) string {
	_, n, _ := strings.Cut(addrs[0].String(), "10.0.0.")
	return n
}
