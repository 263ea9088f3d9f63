package persistence_test

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/persistence/flock"
)

// TestAuditHoldsTheLockForACopy takes the lock again and again beside audits that follow each other. An audit
// that held the lock for all its work would let the lock be taken about once for each audit.
func TestAuditHoldsTheLockForACopy(t *testing.T) {
	audits, waits := besideAudits(t, filled(t, 2000), 20)
	if len(waits) < 5*audits {
		t.Errorf("%d audits, and the lock was taken %d times meanwhile", audits, len(waits))
	}
}

// TestASnapshotKeepsNoLock takes the lock and writes while a snapshot is read: of a small file, whose copy is in memory,
// and of a large one, whose copy is on disk. The snapshot does not change, and no file is left.
func TestASnapshotKeepsNoLock(t *testing.T) {
	for _, n := range []int{10, 20_000} {
		s, beside := filled(t, n), attachment(1)
		beside.Addresses = []netip.Addr{netip.MustParseAddr("192.0.2.1")}
		count := func(tx *persistence.Tx) (found int) {
			must(t, tx.EachRecord("", func(persistence.Record) error { found++; return nil }))
			return found
		}
		must(t, s.View(t.Context(), func(tx *persistence.Tx) error {
			update(t, s, func(tx *persistence.Tx) error { return tx.PutAttachment(beside) })
			if got := count(tx); got != n {
				t.Errorf("%d records in a snapshot of %d", got, n)
			}
			return nil
		}))
	}
}

// TestEachRecord reads the records of one network, and of all.
func TestEachRecord(t *testing.T) {
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	want := []string{"a 10.0.0.2", "a 10.0.0.10", "a-b 10.0.0.1", "b ::1"} // attachments first
	update(t, s, func(tx *persistence.Tx) error {
		for i, at := range want {
			network, addr, _ := strings.Cut(at, " ")
			a := attachment(i)
			a.ID.Network, a.Owner.Network, a.Addresses = network, network, []netip.Addr{netip.MustParseAddr(addr)}
			if i == 1 {
				must(t, tx.PutReservation(reserve(a)))
			} else {
				must(t, tx.PutAttachment(a))
			}
		}
		return nil
	})
	for network, want := range map[string][]string{"": {want[0], want[2], want[3], want[1]}, "a": want[:2], "none": nil} {
		var got []string
		must(t, s.View(t.Context(), func(tx *persistence.Tx) error {
			return tx.EachRecord(network, func(r persistence.Record) error {
				got = append(got, r.Network()+" "+r.Addresses()[0].String())
				return nil
			})
		}))
		if !slices.Equal(got, want) {
			t.Errorf("network %q: %q, want %q", network, got, want)
		}
	}
}

// TestAReaderDelaysAFold has a reader in the fold that a verb would write. The fold waits for its end, and is replaced by a copy
// only when the journal is full: the copy of a large fold would take a verb seconds.
func TestAReaderDelaysAFold(t *testing.T) {
	for name, tc := range map[string]struct {
		beside, after int // commits of 20 kB beside the reader and after it, of which four fill what is folded
		copied        bool
	}{
		"the reader ends":     {6, 1, false},
		"the journal is full": {16, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := filled(t, 100)
			n := 0
			write := func() {
				n++
				update(t, s, func(tx *persistence.Tx) error { return tx.SetConfig("net", bytes.Repeat([]byte{byte(n)}, 20_000)) })
			}
			read := persistence.ActiveFold(s.Dir())
			before, err := os.Stat(read)
			must(t, err)
			view(t, s, func(*persistence.Tx) error {
				for persistence.ActiveFold(s.Dir()) == read {
					write()
				}
				for range tc.beside {
					write()
				}
				if folded := persistence.ActiveFold(s.Dir()) == read; folded != tc.copied {
					t.Errorf("after %d commits beside a reader: folded: %t", tc.beside, folded)
				}
				return nil
			})
			for range tc.after {
				write()
			}
			after, err := os.Stat(read)
			must(t, err)
			if persistence.ActiveFold(s.Dir()) != read || os.SameFile(before, after) == tc.copied {
				t.Errorf("the journal stands on %s, a copy: %t", persistence.ActiveFold(s.Dir()), !os.SameFile(before, after))
			}
			if report, err := s.Audit(t.Context(), nil); err != nil || len(report.Faults) > 0 || report.Attachments != 100 {
				t.Errorf("audit: %+v, %v", report, err)
			}
		})
	}
}

// besideAudits runs n audits, and returns how long a verb waited each time for the lock meanwhile.
func besideAudits(t testing.TB, s *persistence.Store, n int) (audits int, waits []time.Duration) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < n && err == nil; i++ {
			_, err = s.Audit(t.Context(), nil)
		}
		done <- err
	}()
	for {
		asked := time.Now()
		l, err := flock.Lock(t.Context(), filepath.Join(s.Dir(), "limpet.lock"), unix.LOCK_EX, time.Minute)
		must(t, err)
		waits = append(waits, time.Since(asked))
		must(t, l.Close())
		select {
		case err := <-done:
			must(t, err)
			return n, waits
		default:
		}
	}
}

// filled returns a state with n attachments.
func filled(t testing.TB, n int) *persistence.Store {
	t.Helper()
	s := persistence.New(persistence.Options{Dir: t.TempDir()})
	err := s.Update(t.Context(), func(tx *persistence.Tx) error {
		addr := netip.MustParseAddr("10.0.0.1")
		for i := range n {
			a := attachment(1)
			a.ID.ContainerID = fmt.Sprintf("%064x", i)
			a.Owner.Pod, a.UID, a.Addresses = fmt.Sprint("web-", i), fmt.Sprintf("0b1e7a3c-0000-4000-8000-%012x", i), []netip.Addr{addr}
			a.NetNS.Path = fmt.Sprintf("/var/run/netns/cni-0b1e7a3c-0000-4000-8000-%012x", i)
			if _, err := tx.NextSeq(); err != nil {
				return err
			}
			if err := tx.PutAttachment(a); err != nil {
				return err
			}
			addr = addr.Next()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// BenchmarkAudit measures the CPU time of an audit.
func BenchmarkAudit(b *testing.B) {
	for _, n := range []int{250, 50_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := filled(b, n)
			info, err := os.Stat(persistence.ActiveFold(s.Dir()))
			must(b, err)
			begin := cpuTime(b)
			for b.Loop() {
				_, err := s.Audit(b.Context(), nil)
				must(b, err)
			}
			b.ReportMetric((cpuTime(b)-begin).Seconds()*1e3/float64(b.N), "cpu-ms/op")
			b.ReportMetric(float64(info.Size())/(1<<20), "MiB")
		})
	}
}

// BenchmarkLockBesideAudits measures how long a verb waits for the lock while audits follow each other.
func BenchmarkLockBesideAudits(b *testing.B) {
	for _, n := range []int{250, 50_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := filled(b, n)
			for b.Loop() {
				_, waits := besideAudits(b, s, 10)
				slices.Sort(waits)
				b.ReportMetric(waits[len(waits)/2].Seconds()*1e3, "median-ms")
				b.ReportMetric(waits[len(waits)*99/100].Seconds()*1e3, "p99-ms")
				b.ReportMetric(waits[len(waits)-1].Seconds()*1e3, "longest-ms")
			}
		})
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	must(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
