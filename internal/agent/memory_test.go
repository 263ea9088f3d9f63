package agent

import (
	"fmt"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestReservationsOfAnIPv6PoolAreBounded fills the share of a /64. The agent has 128 MiB in all.
func TestReservationsOfAnIPv6PoolAreBounded(t *testing.T) {
	const most = 32 << 20
	first := netip.MustParseAddr("fd00::2")
	set := ipam.Set{{Start: first, End: netip.MustParseAddr("fd00::ffff:ffff:ffff:ffff")}}
	share := reservation.NewShare(ipam.Pods([]ipam.Set{set}), 100, false)
	if share.Pods > 10_000 {
		t.Fatalf("reservations may hold addresses for %d pods", share.Pods)
	}
	now := reservation.Moment{Wall: time.Unix(1_800_000_000, 0), Up: time.Hour, BootID: "11111111-2222-3333-4444-555555555555"}
	store := persistence.New(persistence.Options{Dir: t.TempDir()})
	err := store.Update(t.Context(), func(tx *persistence.Tx) error {
		for i, addr := int64(0), first; i < share.Pods; i, addr = i+1, addr.Next() {
			if err := tx.PutReservation(longReservation(i, addr, now)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	before := heap()
	networks, err := readState(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	objects := plan.Mirror("n1", facts(networks), now)
	if got := heap() - before; got > most || len(objects) < int(share.Pods) {
		t.Errorf("%d objects of %d reservations keep %d bytes, want %d at the most", len(objects), share.Pods, got, most)
	}
	runtime.KeepAlive(networks)
	runtime.KeepAlive(objects)
}

func longReservation(i int64, addr netip.Addr, now reservation.Moment) reservation.Reservation {
	return reservation.Reservation{
		Owner: reservation.Owner{Network: "net", Namespace: "tenant", Pod: fmt.Sprintf("job-%d", i), IfName: "eth0"},
		UID:   fmt.Sprintf("11111111-2222-3333-4444-%012d", i), ContainerID: fmt.Sprintf("%064d", i), Addresses: []netip.Addr{addr},
		Deadline: reservation.Deadline{From: now, For: 24 * time.Hour}, Retain: 24 * time.Hour, Seq: uint64(i) + 1,
		NetNS: reservation.NetNS{Path: fmt.Sprintf("/var/run/netns/cni-%d", i), Dev: 4, Inode: uint64(i + 1)}, BootID: now.BootID,
	}
}

// heap returns the bytes that are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
