package persistence_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func holder(i int, addrs ...netip.Addr) reservation.Attachment {
	return reservation.Attachment{
		ID:    reservation.AttachmentID{Network: "net", ContainerID: fmt.Sprintf("c%d", i), IfName: "eth0"},
		Owner: reservation.Owner{Network: "net", IfName: "eth0"}, Addresses: addrs,
	}
}

// TestFirstFreeAgreesWithAScan compares the bitmaps with a plain map, over chunk
// borders and both families.
func TestFirstFreeAgreesWithAScan(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	for _, base := range []netip.Addr{netip.MustParseAddr("10.0.255.200"), netip.MustParseAddr("fd00::ffff:ff80")} {
		span := []netip.Addr{base}
		for range 700 {
			span = append(span, span[len(span)-1].Next())
		}
		s := persistence.New(persistence.Options{Dir: t.TempDir()})
		held := map[netip.Addr]int{}
		for round := range 30 {
			update(t, s, func(tx *persistence.Tx) error { return shuffle(tx, r, span, held, round) })
			view(t, s, func(tx *persistence.Tx) error {
				for range 100 {
					i := r.IntN(len(span))
					j := i + r.IntN(len(span)-i)
					want := netip.Addr{}
					for _, a := range span[i : j+1] {
						if _, taken := held[a]; !taken {
							want = a
							break
						}
					}
					got, found, err := tx.Free("net").FirstFree(span[i], span[j])
					if err != nil || found != want.IsValid() || got != want {
						t.Fatalf("seed %d: first free of %s-%s: %s, %t, %v; want %s", seed, span[i], span[j], got, found, err, want)
					}
				}
				return nil
			})
		}
	}
}

// shuffle fills up in even rounds and thins out in odd ones.
func shuffle(tx *persistence.Tx, r *rand.Rand, span []netip.Addr, held map[netip.Addr]int, round int) error {
	for i, a := range span {
		_, taken := held[a]
		switch {
		case round%2 == 0 && !taken && r.IntN(10) > 0:
			held[a] = i
			if err := tx.PutAttachment(holder(i, a)); err != nil {
				return err
			}
		case round%2 == 1 && taken && r.IntN(10) > 4:
			delete(held, a)
			if err := tx.DeleteAttachment(holder(i).ID); err != nil {
				return err
			}
		}
	}
	return nil
}
