package persistence_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	bolt "go.etcd.io/bbolt"

	"github.com/limpet-io/limpet/pkg/persistence"
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
				unsealed := append(bytes.Clone(old[:len(old)-len(`,"sum":"00000000"}`)]), '}')
				return b.Put([]byte(owner3), bytes.ReplaceAll(unsealed, []byte("10.0.0.3"), []byte("10.0.0.1")))
			},
			want: []persistence.Fault{{Kind: persistence.FaultHolders, Subject: "net 10.0.0.1"}, {Kind: persistence.FaultIndex, Subject: "net 10.0.0.3"}},
		},
		"a record with a sequence number that was never given out": {
			edit: in("meta", func(b *bolt.Bucket) error { return b.SetSequence(2) }),
			want: []persistence.Fault{{Kind: persistence.FaultRecord, Subject: "reservations net ns c3 eth0"}},
		},
		"an address that no record holds, and one that is not marked as held": {
			edit: in("held", func(b *bolt.Bucket) error {
				bits := append([]byte{}, b.Get([]byte(chunk))[:32]...) // as the first version wrote it
				bits[0] = 1<<7 | 1<<2 | 1<<3
				return b.Put([]byte(chunk), bits)
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
			want: []persistence.Fault{{Kind: persistence.FaultIndex, Subject: "net ns c1 eth0 c1"}},
		},
		"an index entry without an attachment": {
			edit: in("owners", func(b *bolt.Bucket) error { return b.Put([]byte(owner1+"\x00c8"), nil) }),
			want: []persistence.Fault{{Kind: persistence.FaultIndex, Subject: "net ns c1 eth0 c8"}},
		},
		"a reservation that is not counted": {
			edit: in("pressure", func(b *bolt.Bucket) error { return b.Delete([]byte("net")) }),
			want: []persistence.Fault{{Kind: persistence.FaultIndex, Subject: "reservations of net"}},
		},
		"a network without counts": {
			edit: func(tx *bolt.Tx) error { return tx.DeleteBucket([]byte("pressure")) },
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

// TestAuditLooksAtEveryPage damages the page that lists the free pages.
func TestAuditLooksAtEveryPage(t *testing.T) {
	for name, offset := range map[string]int64{ // in the page
		"pages that are neither free nor in use": 10, // the number of free pages
		"a page of an unknown type":              8,
	} {
		t.Run(name, func(t *testing.T) {
			s := grown(t)
			f, err := os.OpenFile(persistence.ActiveFold(s.Dir()), os.O_RDWR, 0)
			must(t, err)
			_, err = f.WriteAt([]byte{0, 0}, freelist(t, f)+offset)
			must(t, errors.Join(err, f.Close()))
			report, err := s.Audit(t.Context(), nil)
			must(t, err)
			if len(report.Faults) != 1 || report.Faults[0].Kind != persistence.FaultFile {
				t.Errorf("faults %v", report.Faults)
			}
			if _, _, err := s.Compact(t.Context()); !errors.Is(err, persistence.ErrDamaged) {
				t.Errorf("compacted: %v", err)
			}
		})
	}
}

// freelist returns the offset of the page that lists the free pages.
func freelist(t *testing.T, f *os.File) int64 {
	t.Helper()
	var newest, at uint64
	size := int64(os.Getpagesize())
	for _, meta := range []int64{0, size} {
		var page [80]byte
		_, err := f.ReadAt(page[:], meta)
		must(t, err)
		if txid := binary.NativeEndian.Uint64(page[64:]); txid >= newest {
			newest, at = txid, binary.NativeEndian.Uint64(page[48:])
		}
	}
	return int64(at) * size
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
