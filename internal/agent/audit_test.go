package agent_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
)

const violationsOf = "limpet_agent_audit_violations "

// Places in the header of a journal on a fold of less than 1 MiB.
const (
	foldAt     = len("limpet journal 1\n")
	foldSizeAt = foldAt + 1 + 8
	sumsAt     = foldSizeAt + 8 + 8 + 4
)

// fold returns the path of the fold on which the journal stands, and the journal.
func (n *node) fold(t *testing.T) (path string, journal []byte) {
	t.Helper()
	journal, err := os.ReadFile(filepath.Join(n.StateDir, "limpet.journal"))
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(n.StateDir, []string{"limpet.db", "limpet.db.2"}[journal[foldAt]]), journal
}

// harm changes the state behind the back of pkg/persistence, with checksums as a fault of the program would write them.
func (n *node) harm(t *testing.T, bucket string, change func(b *bolt.Bucket) error) {
	t.Helper()
	if _, _, err := n.store.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	path, journal := n.fold(t)
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error { return change(tx.Bucket([]byte(bucket))) })
	size := 0
	err = errors.Join(err, db.View(func(tx *bolt.Tx) error { size = int(tx.Size()); return nil }), db.Close())
	fold, readErr := os.ReadFile(path)
	if err := errors.Join(err, readErr); err != nil {
		t.Fatal(err)
	}
	const end = sumsAt + 4
	binary.LittleEndian.PutUint64(journal[foldSizeAt:], uint64(size))
	binary.LittleEndian.PutUint32(journal[sumsAt:], crc32.ChecksumIEEE(fold[:size]))
	binary.LittleEndian.PutUint32(journal[end:], crc32.ChecksumIEEE(journal[:end]))
	n.write(t, filepath.Join(n.StateDir, "limpet.journal"), string(journal))
}

func withAddress(address string) func(*reservation.Attachment) {
	return func(a *reservation.Attachment) { a.Addresses = []netip.Addr{netip.MustParseAddr(address)} }
}

// TestAuditReportsAWrongIndex changes the index of a state: one address is held without a record, and would be lost for good,
// another one is marked as free, and would be handed out twice.
func TestAuditReportsAWrongIndex(t *testing.T) {
	n := newNode(t, "audit-index")
	n.attach(t, "default", "web-0", "u0", n.liveNetNS(), 0, withAddress("10.1.0.2"))
	n.harm(t, "held", func(b *bolt.Bucket) error {
		k, _ := b.Cursor().First()
		bits := make([]byte, 32)
		bits[0] = 1 << 5 // 10.1.0.5 in place of 10.1.0.2
		return b.Put(k, binary.BigEndian.AppendUint32(bits, crc32.ChecksumIEEE(slices.Concat(k, bits))))
	})
	n.start(t)
	n.metricIs(t, violationsOf+"index", 2)
	n.stateIs(t, map[string]string{"web-0": "attached, retain 10m0s"})
}

// TestAuditReportsDamage damages a record, and then the file. The agent reports both and
// changes neither: the plugin rebuilds the state with what it knows.
func TestAuditReportsDamage(t *testing.T) {
	n := newNode(t, "audit-report")
	n.attach(t, "default", "web-0", "u0", n.liveNetNS(), 0)
	n.harm(t, "attachments", func(b *bolt.Bucket) error { return b.Put([]byte("net\x00c-web-1\x00eth0"), []byte("{")) })
	n.start(t)
	n.metricIs(t, violationsOf+"record", 1)

	path, _ := n.fold(t)
	if err := os.Truncate(path, 8192); err != nil {
		t.Fatal(err)
	}
	n.metricIs(t, violationsOf+"file", 1)
	n.metricIs(t, violationsOf+"record", 0)
	if info, err := os.Stat(path); err != nil || info.Size() != 8192 {
		t.Errorf("the damaged file was touched: %v", err)
	}
}

// TestANamespaceLeftBehindIsReported has a network namespace whose pod is gone, as after a wiped
// runtime. The address stays attached while the namespace has it, and ends with the namespace.
func TestANamespaceLeftBehindIsReported(t *testing.T) {
	ns, n := env.Namespace(t), newNode(t, "audit-left-behind")
	wiped := filepath.Join(n.NetNSDir, "wiped")
	n.write(t, wiped, "")
	n.attach(t, ns, "gone", "u0", wiped, time.Hour)
	n.attach(t, ns, "young", "u1", n.liveNetNS(), time.Minute)
	n.start(t)
	n.metricIs(t, violationsOf+"namespace", 1)
	n.stateIs(t, map[string]string{"gone": "attached, retain 10m0s", "young": "attached, retain 10m0s"})

	if err := os.Remove(wiped); err != nil {
		t.Fatal(err)
	}
	n.stateIs(t, map[string]string{"gone": "reserved", "young": "attached, retain 10m0s"})
	n.metricIs(t, violationsOf+"namespace", 0)
	n.metricIs(t, "limpet_agent_recoveries_total attachment", 1)
}

// TestAnOlderSandboxEndsBesideItsPod has a pod with two sandboxes: the namespace of the older one is
// gone without a DEL, as when a plugin of the chain was missing.
func TestAnOlderSandboxEndsBesideItsPod(t *testing.T) {
	ns, n := env.Namespace(t), newNode(t, "audit-older")
	runs := testenv.APod("web-0").In(ns).On(n.Node).With(reservation.RetainAnnotation, "10")
	env.Create(t, runs.Pod)
	sandbox := func(id string, seq uint64) func(*reservation.Attachment) {
		return func(a *reservation.Attachment) { a.ID.ContainerID, a.Seq = id, seq }
	}
	n.attach(t, ns, "web-0", string(runs.UID), filepath.Join(n.NetNSDir, "failed"), time.Hour, sandbox("failed", 1))
	n.attach(t, ns, "web-0", string(runs.UID), n.liveNetNS(), time.Hour, sandbox("runs", 2))
	n.start(t)
	n.metricIs(t, "limpet_agent_recoveries_total attachment", 1)
	n.stateIs(t, map[string]string{"web-0": "attached, retain 10m0s"})
}

// TestAuditComparesWithContainers has a container with an address that the state does not know. Two
// audits must find it, because pods start and end meanwhile.
func TestAuditComparesWithContainers(t *testing.T) {
	n := newNode(t, "audit-running")
	n.attach(t, "default", "web-0", "u0", n.liveNetNS(), 0)
	var audits atomic.Int32
	n.Running = func(dir string) ([]reservation.Attachment, error) {
		if dir != n.StateDir {
			return nil, fmt.Errorf("asked about %s", dir)
		}
		a := reservation.Attachment{
			ID:    reservation.AttachmentID{Network: "net", ContainerID: fmt.Sprint("starts-", audits.Add(1)), IfName: "eth0"},
			NetNS: reservation.NetNS{Path: "elsewhere"}, Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.3")},
		}
		stays := a
		stays.ID.ContainerID = "stays"
		return []reservation.Attachment{a, stays}, nil
	}
	n.start(t)
	n.metricIs(t, violationsOf+"running", 1)
}

// TestLeftoversOfInterruptedInstallationsAreRemoved checks that only the agent's own temporary files
// go, and only old ones.
func TestLeftoversOfInterruptedInstallationsAreRemoved(t *testing.T) {
	n := newNode(t, "leftovers")
	goes := map[string]bool{}
	half := func(dir, name string, age time.Duration, gone bool) {
		t.Helper()
		path, then := filepath.Join(dir, name), time.Now().Add(-age)
		n.write(t, path, "half a file")
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
		goes[path] = gone
	}
	half(n.BinDir, ".limpet-ipam.123.limpet", time.Hour, true)
	half(n.BinDir, ".limpet-ipam.77.limpet", 11*time.Minute, true)
	half(n.BinDir, ".limpet-ipam.5.limpet", time.Minute, false)
	half(n.BinDir, ".limpet-ipam.backup.limpet", time.Hour, false)
	half(n.BinDir, ".bridge.123.limpet", time.Hour, false)
	half(n.BinDir, "limpet-ipam.123", time.Hour, false)
	for _, record := range []string{"limpet.adopted", "limpet.nodenetwork", "limpet.follows"} {
		half(n.StateDir, "."+record+".123.limpet", time.Hour, true)
	}
	n.start(t)
	n.metricIs(t, "limpet_agent_recoveries_total file", 5)
	for path, gone := range goes {
		if _, err := os.Stat(path); (err != nil) != gone {
			t.Errorf("%s: %v", path, err)
		}
	}
}
