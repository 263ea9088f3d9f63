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

var firstAddress = netip.MustParseAddr("10.1.0.2")

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
	return persistence.New(persistence.Options{Dir: dir}).Update(ctx, func(tx *persistence.Tx) error {
		for i, a := 0, firstAddress; i < n; i, a = i+1, a.Next() {
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

// fillReserved stores n reservations for pods named pod-0, pod-1, …, which begin now.
func fillReserved(ctx context.Context, dir string, n int, now reservation.Moment) error {
	return persistence.New(persistence.Options{Dir: dir}).Update(ctx, func(tx *persistence.Tx) error {
		for i, a := 0, firstAddress; i < n; i, a = i+1, a.Next() {
			name := fmt.Sprintf("pod-%d", i)
			seq, err := tx.NextSeq()
			if err != nil {
				return err
			}
			err = tx.PutReservation(reservation.Reservation{
				Owner: owner(name), UID: "uid", ContainerID: "earlier-" + name, Addresses: []netip.Addr{a},
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
