package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var (
	firstAddress   = netip.MustParseAddr("10.1.0.2")
	firstOfMillion = netip.MustParseAddr("10.0.0.2")
)

// fillHostLocal writes host-local's files for n addresses in use, with the cursor at the last
// address.
func fillHostLocal(_ context.Context, dir string, n int) error {
	dir = filepath.Join(dir, network)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	for i, a := 0, firstAddress; i < n; i, a = i+1, a.Next() {
		if err := os.WriteFile(filepath.Join(dir, a.String()), fmt.Appendf(nil, "used-%d\r\neth0", i), 0o600); err != nil {
			return fmt.Errorf("fill: %w", err)
		}
		if i == n-1 {
			if err := os.WriteFile(filepath.Join(dir, "last_reserved_ip.0"), []byte(a.String()), 0o600); err != nil {
				return fmt.Errorf("fill: %w", err)
			}
		}
	}
	return nil
}

// fillLimpet stores n attachments, with the cursor at the last address.
func fillLimpet(ctx context.Context, dir string, n int) error {
	return attach(ctx, dir, 0, n, firstAddress)
}

// inOne is how many attachments a transaction stores.
const inOne = 50_000

// fillMillion stores n attachments in a range of a /12.
func fillMillion(ctx context.Context, dir string, n int) error {
	a := firstOfMillion
	for from := 0; from < n; from += inOne {
		to := min(from+inOne, n)
		if err := attach(ctx, dir, from, to, a); err != nil {
			return err
		}
		for range to - from {
			a = a.Next()
		}
	}
	return nil
}

// attach stores the attachments of some numbers at the addresses from a on, with the cursor at the last one.
func attach(ctx context.Context, dir string, from, to int, a netip.Addr) error {
	return persistence.New(persistence.Options{Dir: dir}).Update(ctx, func(tx *persistence.Tx) error {
		for i, a := from, a; i < to; i, a = i+1, a.Next() {
			name := fmt.Sprintf("used-%d", i)
			seq, err := tx.NextSeq()
			if err != nil {
				return err
			}
			err = tx.PutAttachment(reservation.Attachment{
				ID:    reservation.AttachmentID{Network: network, ContainerID: name, IfName: "eth0"},
				Owner: owner(name), UID: "uid-" + name, Addresses: []netip.Addr{a}, AnnotationsSeen: true,
				NetNS: reservation.NetNS{Path: "/run/netns/cni-" + name}, Since: reservation.Moment{Wall: time.Now()}, Seq: seq,
			})
			if err != nil {
				return err
			}
			if i < to-1 {
				continue
			}
			if err := tx.SetCursor(network, 0, a); err != nil {
				return err
			}
		}
		return nil
	})
}

// emptyLimpet ends all attachments.
func emptyLimpet(ctx context.Context, dir string) error {
	return persistence.New(persistence.Options{Dir: dir}).Update(ctx, func(tx *persistence.Tx) error {
		all, err := tx.Attachments(network)
		for _, a := range all {
			if err := tx.DeleteAttachment(a.ID); err != nil {
				return err
			}
		}
		return err
	})
}

// fillReserved stores n reservations for pods named pod-0, pod-1, …, which begin now. Of several namespaces the last one has
// most reservations, and its reservations are the newest.
func fillReserved(ctx context.Context, dir string, n, namespaces int, now reservation.Moment) error {
	return persistence.New(persistence.Options{Dir: dir}).Update(ctx, func(tx *persistence.Tx) error {
		for i, a := 0, firstAddress; i < n; i, a = i+1, a.Next() {
			name := fmt.Sprintf("pod-%d", i)
			seq, err := tx.NextSeq()
			if err != nil {
				return err
			}
			of := owner(name)
			if namespaces > 1 {
				of.Namespace = fmt.Sprintf("ns-%d", min(i/(n/namespaces-10), namespaces-1))
			}
			err = tx.PutReservation(reservation.Reservation{
				Owner: of, UID: "uid", ContainerID: "earlier-" + name, Addresses: []netip.Addr{a},
				Deadline: reservation.Deadline{From: now, For: 10 * time.Hour}, Retain: 10 * time.Hour, Seq: seq,
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func owner(pod string) reservation.Owner {
	return reservation.Owner{Network: network, Namespace: "ns", Pod: pod, IfName: "eth0"}
}
