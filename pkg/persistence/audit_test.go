package persistence_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/persistence/flock"
)

// audited returns a state with attachments 1 and 2 and a reservation.
func audited(t *testing.T) *persistence.Store {
	t.Helper()
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	update(t, s, func(tx *persistence.Tx) error {
		for range 3 {
			if _, err := tx.NextSeq(); err != nil {
				return err
			}
		}
		return errors.Join(tx.PutAttachment(attachment(1)), tx.PutAttachment(attachment(2)), tx.PutReservation(reserve(attachment(3))))
	})
	return s
}

// faultyState is a change of the state that audited returns, and the faults that an audit finds afterwards.
type faultyState struct {
	edit func(tx *bolt.Tx) error
	want []persistence.Fault
}

func faultyStates() map[string]faultyState {
	const (
		container1 = "net\x00c1\x00eth0"
		owner1     = "net\x00ns\x00c1\x00eth0"
		owner3     = "net\x00ns\x00c3\x00eth0"
		chunk      = "net\x00\x0a\x00\x00\x00"
	)
	in := func(bucket string, fn func(b *bolt.Bucket) error) func(*bolt.Tx) error {
		return func(tx *bolt.Tx) error { return fn(tx.Bucket([]byte(bucket))) }
	}
	return map[string]faultyState{
		"a sound state has no faults": {edit: func(*bolt.Tx) error { return nil }},
		"a record that cannot be decoded": {
			edit: in("reservations", func(b *bolt.Bucket) error { return b.Put([]byte(owner3), []byte(`{"ips":["10.0.0.3","fd00::4"`)) }),
			want: []persistence.Fault{
				{Kind: persistence.FaultRecord, Subject: "reservations net ns c3 eth0"},
				{Kind: persistence.FaultIndex, Subject: "net 10.0.0.3"},
				{Kind: persistence.FaultIndex, Subject: "net fd00::4"},
				{Kind: persistence.FaultIndex, Subject: "order of reservations"},
			},
		},
		"a record at the key of another": {
			edit: in("attachments", func(b *bolt.Bucket) error { return b.Put([]byte("net\x00c9\x00eth0"), b.Get([]byte(container1))) }),
			want: []persistence.Fault{{Kind: persistence.FaultRecord, Subject: "attachments net c9 eth0"}},
		},
		"an address of an attachment and of a reservation": {
			edit: func(tx *bolt.Tx) error {
				b := tx.Bucket([]byte("reservations"))
				old := b.Get([]byte(owner3))
				body := bytes.ReplaceAll(old[:len(old)-len(`,"sum":"00000000"}`)], []byte("10.0.0.3"), []byte("10.0.0.1"))
				return b.Put([]byte(owner3), fmt.Appendf(body, `,"sum":"%08x"}`, crc32.ChecksumIEEE(body)))
			},
			want: []persistence.Fault{{Kind: persistence.FaultHolders, Subject: "net 10.0.0.1"}, {Kind: persistence.FaultIndex, Subject: "net 10.0.0.3"}},
		},
		"a record with a sequence number that was never given out": {
			edit: in("meta", func(b *bolt.Bucket) error {
				return b.Put([]byte("sequence\x00meta"), binary.BigEndian.AppendUint64(nil, 2))
			}),
			want: []persistence.Fault{{Kind: persistence.FaultRecord, Subject: "reservations net ns c3 eth0"}},
		},
		"an address that no record holds, and one that is not marked as held": {
			edit: in("held", func(b *bolt.Bucket) error {
				bits := append([]byte{}, b.Get([]byte(chunk))[:32]...)
				bits[0] = 1<<7 | 1<<2 | 1<<3
				return b.Put([]byte(chunk), binary.BigEndian.AppendUint32(bits, crc32.ChecksumIEEE(append([]byte(chunk), bits...))))
			}),
			want: []persistence.Fault{{Kind: persistence.FaultIndex, Subject: "net 10.0.0.1"}, {Kind: persistence.FaultIndex, Subject: "net 10.0.0.7"}},
		},
		"a bitmap with a wrong checksum": {
			edit: in("held", func(b *bolt.Bucket) error {
				bits := append([]byte{}, b.Get([]byte(chunk))...)
				bits[0] ^= 1
				return b.Put([]byte(chunk), bits)
			}),
			want: []persistence.Fault{{Kind: persistence.FaultIndex, Subject: "net \n   "}},
		},
		"a bitmap that is cut short": {
			edit: in("held", func(b *bolt.Bucket) error { return b.Put([]byte("net\x00\x0b\x00\x00\x00"), []byte{1}) }),
			want: []persistence.Fault{{Kind: persistence.FaultIndex, Subject: "net \v   "}},
		},
		"an attachment that is not in the index by owner": {
			edit: in("owners", func(b *bolt.Bucket) error { return b.Delete([]byte(owner1 + "\x00c1")) }),
			want: []persistence.Fault{{Kind: persistence.FaultIndex, Subject: "index of attachments by pod"}},
		},
		"an index entry without an attachment": {
			edit: in("owners", func(b *bolt.Bucket) error { return b.Put([]byte(owner1+"\x00c8"), nil) }),
			want: []persistence.Fault{{Kind: persistence.FaultIndex, Subject: "index of attachments by pod"}},
		},
		"an index entry in the place of another": {
			edit: in("owners", func(b *bolt.Bucket) error {
				return errors.Join(b.Delete([]byte(owner1+"\x00c1")), b.Put([]byte(owner1+"\x00c8"), nil))
			}),
			want: []persistence.Fault{{Kind: persistence.FaultIndex, Subject: "index of attachments by pod"}},
		},
		"a reservation that is not counted": {
			edit: in("pressure", func(b *bolt.Bucket) error { return b.Delete([]byte("net")) }),
			want: []persistence.Fault{{Kind: persistence.FaultIndex, Subject: "reservations of net"}},
		},
		"a network without counts": {
			edit: func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("pressure")) },
			want: []persistence.Fault{{Kind: persistence.FaultIndex, Subject: "reservations of net"}},
		},
	}
}

func TestAuditFindsFaults(t *testing.T) {
	for name, tc := range faultyStates() {
		t.Run(name, func(t *testing.T) {
			s := audited(t)
			inside(t, persistence.ActiveFold(s.Dir()), tc.edit)
			got, err := s.Audit(t.Context(), nil)
			must(t, err)
			for i := range got.Faults {
				if got.Faults[i].Problem == "" {
					t.Errorf("no description of %+v", got.Faults[i])
				}
				got.Faults[i].Problem = ""
			}
			if diff := cmp.Diff(tc.want, got.Faults); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestAuditReadsEveryByte flips a bit in each part of a file of several megabytes, of which a verb reads one.
func TestAuditReadsEveryByte(t *testing.T) {
	s := filled(t, 6000)
	_, _, err := s.Compact(t.Context())
	must(t, err)
	path := persistence.ActiveFold(s.Dir())
	sound, err := s.Audit(t.Context(), nil)
	must(t, err)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	unread := 0
	for at := int64(1000); at < sound.Size-4096; at += 1 << 20 {
		flip(t, f, at)
		report, err := s.Audit(t.Context(), nil)
		if report.Size > 0 { // not found when it was opened
			unread++
		}
		if !errors.Is(err, persistence.ErrDamaged) {
			t.Errorf("byte %d: faults %v, %v", at, report.Faults, err)
		}
		flip(t, f, at)
	}
	if must(t, f.Close()); unread < 2 {
		t.Errorf("%d parts were read by the audit alone", unread)
	}
}

// TestReadersReachEachPart flips a bit in the last part of a file of several megabytes. Some reader finds it, although none
// writes.
func TestReadersReachEachPart(t *testing.T) {
	s := filled(t, 6000)
	_, _, err := s.Compact(t.Context())
	must(t, err)
	sound, err := s.Audit(t.Context(), nil)
	must(t, err)
	f, err := os.OpenFile(persistence.ActiveFold(s.Dir()), os.O_RDWR, 0)
	must(t, err)
	flip(t, f, sound.Size-8192)
	must(t, f.Close())
	for range 1000 {
		if err = s.View(t.Context(), func(*persistence.Tx) error { return nil }); err != nil {
			break
		}
	}
	if !errors.Is(err, persistence.ErrDamaged) {
		t.Errorf("1000 readers found %v", err)
	}
}

// flip flips a bit of a byte.
func flip(t *testing.T, f *os.File, at int64) {
	t.Helper()
	b := make([]byte, 1)
	_, err := f.ReadAt(b, at)
	must(t, err)
	b[0] ^= 4
	_, err = f.WriteAt(b, at)
	must(t, err)
}

func TestAuditNotesAMissingMarker(t *testing.T) {
	s := audited(t)
	for _, want := range []bool{true, false} {
		got, err := s.Audit(t.Context(), nil)
		must(t, err)
		if got.Marked != want {
			t.Errorf("marked: %t, want %t", got.Marked, want)
		}
		if want {
			must(t, os.Remove(filepath.Join(s.Dir(), "limpet.marker")))
		}
	}
}

// TestAuditWithoutTheLockFile audits while a process that does not share the lock file writes: a copy would be torn.
func TestAuditWithoutTheLockFile(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: audited(t).Dir(), LockWait: 1}) // bbolt polls: the wait need not be long
	path := persistence.ActiveFold(s.Dir())
	db, err := bolt.Open(path, 0o600, nil)
	must(t, err)
	if _, err := s.Audit(t.Context(), nil); !errors.Is(err, persistence.ErrLocked) {
		t.Errorf("audit beside a writer: %v", err)
	}
	must(t, db.Close())
	if report, err := s.Audit(t.Context(), nil); err != nil || len(report.Faults) > 0 {
		t.Errorf("audit afterwards: %v, %v", report.Faults, err)
	}
	lock, err := flock.Lock(t.Context(), filepath.Join(s.Dir(), "limpet.lock"), unix.LOCK_EX, 1)
	must(t, err)
	must(t, lock.Close()) // the audit kept no lock
}
