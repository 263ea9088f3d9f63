package persistence_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func holder(i int, addrs ...netip.Addr) reservation.Attachment {
	return reservation.Attachment{
		ID:    reservation.AttachmentID{Network: "net", ContainerID: fmt.Sprintf("c%d", i), IfName: "eth0"},
		Owner: reservation.Owner{Network: "net", IfName: "eth0"}, Addresses: addrs,
	}
}

// TestFirstFreeAgreesWithAScan compares FirstFree with a scan of a plain map, over chunk borders and for both families.
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

// shuffle holds random addresses in even rounds and releases some in odd rounds.
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

// TestHeldAddressNeverLooksFree flips each bit of bitmaps and their keys: in the first bitmap, in the last, and in one
// between them.
func TestHeldAddressNeverLooksFree(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	update(t, s, func(tx *persistence.Tx) error {
		for i := range 5 {
			if err := tx.PutAttachment(holder(i, v4(i*256+7))); err != nil {
				return err
			}
		}
		return nil
	})
	var entries [][]byte
	inside(t, s.Dir()+"/limpet.db", func(tx *bolt.Tx) error {
		for _, i := range []int{0, 2, 4} {
			k := append([]byte("net\x00"), 10, 0, byte(i), 0)
			entries = append(entries, append(k, tx.Bucket([]byte("held")).Get(k)...))
		}
		return nil
	})
	path := persistence.ActiveFold(s.Dir())
	good, err := os.ReadFile(path)
	must(t, err)
	for n, entry := range entries {
		for bit := range len(entry) * 8 {
			bad := bytes.Clone(entry)
			bad[bit/8] ^= 1 << (bit % 8)
			must(t, os.WriteFile(path, bytes.ReplaceAll(good, entry, bad), 0o600))
			err := s.View(t.Context(), func(tx *persistence.Tx) error {
				_, err := tx.Held("net", v4(2*n*256+7))
				return err
			})
			if !errors.Is(err, persistence.ErrDamaged) {
				t.Errorf("bit %d of entry %d flipped: %v, want %v", bit, n, err, persistence.ErrDamaged)
			}
		}
	}
}
