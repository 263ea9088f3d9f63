package audit_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/audit"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var now = reservation.Moment{Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), BootID: "boot", Up: 10 * time.Hour}

// TestConfirmed drops what only one of two audits found, unless no pod that starts or ends can cause it.
func TestConfirmed(t *testing.T) {
	finding := func(kind audit.Kind, subject string) audit.Finding {
		return audit.Finding{Severity: audit.Violation, Kind: kind, Subject: subject}
	}
	before := []audit.Finding{finding(audit.KindRunning, "stays"), finding(audit.KindRunning, "ended"), finding(audit.KindNamespace, "stays")}
	found := []audit.Finding{
		finding(audit.KindIndex, "new"), finding(audit.KindRunning, "stays"), finding(audit.KindRunning, "new"),
		finding(audit.KindNamespace, "new"), finding(audit.KindNamespace, "stays"),
	}
	want := []audit.Finding{finding(audit.KindIndex, "new"), finding(audit.KindRunning, "stays"), finding(audit.KindNamespace, "stays")}
	if diff := cmp.Diff(want, audit.Confirmed(before, found)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAuditOfAState judges a state with a container that runs with another pod's address.
func TestAuditOfAState(t *testing.T) {
	store := persistence.New(persistence.Options{Dir: t.TempDir()})
	auditor := audit.Auditor{
		Now: func() reservation.Moment { return now }, NetNS: func(string) (reservation.NetNS, bool) { return reservation.NetNS{}, false },
		Running: func(string) ([]reservation.Attachment, error) {
			return []reservation.Attachment{attached("c2", "10.0.0.1")}, nil
		},
	}
	if _, err := auditor.Audit(t.Context(), store); !errors.Is(err, persistence.ErrNoState) {
		t.Errorf("without a state: %v", err)
	}
	err := store.Update(t.Context(), func(tx *persistence.Tx) error { return tx.PutAttachment(attached("c1", "10.0.0.1")) })
	if err != nil {
		t.Fatal(err)
	}
	r, err := auditor.Audit(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	want := []audit.Finding{
		{Severity: audit.Violation, Kind: audit.KindRunning, Subject: "net 10.0.0.1", Problem: "is in use by pod ns/c2 (container c2), and in the state attached to pod ns/c1 (container c1)"},
		{Severity: audit.Note, Kind: audit.KindGone, Subject: "net 10.0.0.1", Problem: "is attached to pod ns/c1 (container c1), whose network namespace is gone: a DEL of the runtime or the agent frees it"},
	}
	if diff := cmp.Diff(want, r.Findings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func attached(container, address string) reservation.Attachment {
	return reservation.Attachment{
		ID: reservation.AttachmentID{Network: "net", ContainerID: container, IfName: "eth0"}, Since: now,
		Owner: reservation.Owner{Network: "net", Namespace: "ns", Pod: container, IfName: "eth0"},
		NetNS: reservation.NetNS{Path: "/run/netns/" + container, Dev: 1, Inode: 2}, Addresses: []netip.Addr{netip.MustParseAddr(address)},
	}
}
