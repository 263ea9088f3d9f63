package cni_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// BenchmarkAddDel runs one ADD and one DEL with a number of addresses in use. The next address
// is free or, in the worst case, only the one just behind the cursor.
func BenchmarkAddDel(b *testing.B) {
	for _, used := range []int{0, 1000, 10000, 50000} {
		for _, cursor := range []string{"next", "behind"} {
			b.Run(fmt.Sprintf("used=%d/free=%s", used, cursor), func(b *testing.B) { benchAddDel(b, used, cursor == "behind") })
		}
	}
}

func benchAddDel(b *testing.B, used int, behind bool) {
	w := newBenchNode(b)
	first := netip.MustParseAddr("10.1.0.2")
	last := w.fill(first, used)
	conf := map[string]any{"ipam": map[string]any{"dataDir": w.dir, "ranges": json.RawMessage(`[[{"subnet":"10.1.0.0/16"}]]`)}}
	if behind && used > 0 { // all of the range is in use but its first address
		conf = map[string]any{"ipam": map[string]any{"dataDir": w.dir, "ranges": json.RawMessage(fmt.Sprintf(`[[{"subnet":"10.1.0.0/16","rangeEnd":%q,"gateway":"10.1.255.254"}]]`, last))}}
	}
	s := sandbox{id: "bench", pod: "bench", ifName: "eth0"}
	args := w.args(s, conf)
	for b.Loop() {
		w.start(s)
		if err := w.plugin.Funcs().Add(args); err != nil {
			b.Fatal(err)
		}
		if err := w.plugin.Funcs().Del(args); err != nil {
			b.Fatal(err)
		}
		delete(w.netns, s.netns()) // the runtime removes the namespace after the DEL
	}
}

// BenchmarkReclaim runs an ADD and a DEL that reserves the address, beside n reservations. The range has free addresses,
// or the ADD reclaims one, or the DEL finds the share of reservations used up.
func BenchmarkReclaim(b *testing.B) {
	const all = "10.1.255.254"
	for _, n := range []int{250, 2_000, 25_000} {
		for _, what := range []string{"everyday", "reclaim", "share"} {
			b.Run(fmt.Sprint(what, "/", n), func(b *testing.B) {
				w := newBenchNode(b)
				last, percent := w.fillReserved(netip.MustParseAddr("10.1.0.2"), n).String(), 100
				switch what {
				case "everyday":
					last = all
				case "share":
					last, percent = all, n*100/65_533
				}
				w.ipam = map[string]any{"maxReservedPercent": percent, "ranges": json.RawMessage(fmt.Sprintf(`[[{"subnet":"10.1.0.0/16","rangeEnd":%q}]]`, last))}
				i := 0
				for b.Loop() {
					i++
					s := sandbox{id: fmt.Sprint("bench-", i), pod: fmt.Sprint("bench-", i), ifName: "eth0", annotations: map[string]string{reservation.RetainAnnotation: "60"}}
					w.mustAdd(s)
					w.stop(s)
				}
			})
		}
	}
}

// fillReserved stores n reservations of seven namespaces from first on, and returns the last address.
func (w *testNode) fillReserved(first netip.Addr, n int) netip.Addr {
	w.t.Helper()
	addr := first.Prev()
	err := persistence.New(persistence.Options{Dir: w.dir}).Update(w.t.Context(), func(tx *persistence.Tx) error {
		for i := range n {
			addr = addr.Next()
			owner := reservation.Owner{Network: network, Namespace: fmt.Sprint("ns-", i%7), Pod: fmt.Sprint("web-", i), IfName: "eth0"}
			d := reservation.Deadline{From: w.now, For: time.Hour}
			if err := tx.PutReservation(reservation.Reservation{Owner: owner, Addresses: []netip.Addr{addr}, Deadline: d, Retain: time.Hour}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return addr
}

// BenchmarkBesideLoans runs an ADD and a DEL of a pod that does not ask on a node with many pods, and then on one with as many
// loans, half of them guests. All of a /24 can be lent.
func BenchmarkBesideLoans(b *testing.B) {
	for _, n := range []int{250, 5_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchBesideLoans(b, n) })
	}
}

func benchBesideLoans(b *testing.B, n int) {
	nodes, took := []*testNode{newBenchNode(b), newBenchNode(b)}, make([][]time.Duration, 2)
	nodes[1].fillLoans(netip.MustParseAddr("10.1.0.2"), n, "lent", reservation.Reservation{Lent: 1})
	nodes[1].fillLoans(netip.MustParseAddr("10.2.0.2"), n, "guest", reservation.Reservation{Guest: 1})
	nodes[0].fill(netip.MustParseAddr("10.1.0.2"), 2*n)
	for _, w := range nodes {
		if err := persistence.New(persistence.Options{Dir: w.dir}).Fold(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	s := sandbox{id: "bench", pod: "bench", ifName: "eth0"}
	for b.Loop() {
		for i, w := range nodes {
			args := w.args(s, map[string]any{"ipam": map[string]any{"dataDir": w.dir, "ranges": json.RawMessage(`[[{"subnet":"10.1.0.0/16"}]]`)}})
			w.start(s)
			began := time.Now()
			if err := errors.Join(w.plugin.Funcs().Add(args), w.plugin.Funcs().Del(args)); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(began))
			delete(w.netns, s.netns())
		}
	}
	for i := range took {
		slices.Sort(took[i])
		b.ReportMetric(float64(took[i][len(took[i])/2].Microseconds()), []string{"µs-beside-pods", "µs-beside-loans"}[i])
	}
	b.ReportMetric(float64(took[1][len(took[1])/2])/float64(took[0][len(took[0])/2]), "times-as-long")
}

// fillLoans stores n loans from an address on.
func (w *testNode) fillLoans(addr netip.Addr, n int, pod string, r reservation.Reservation) {
	w.t.Helper()
	r.Mode, r.Retain, r.Deadline, r.BootID = reservation.Follow, reservation.Forever, reservation.Deadline{From: w.now, For: reservation.Forever}, w.now.BootID
	err := persistence.New(persistence.Options{Dir: w.dir}).Update(w.t.Context(), func(tx *persistence.Tx) (err error) {
		for i := range n {
			r.Owner, r.Addresses = reservation.Owner{Network: network, Namespace: "ns", Pod: fmt.Sprint(pod, i), IfName: "eth0"}, []netip.Addr{addr}
			err, addr = errors.Join(err, tx.PutReservation(r)), addr.Next()
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// BenchmarkLog runs an ADD and a DEL with and without the log file.
func BenchmarkLog(b *testing.B) {
	for _, file := range []string{"none", "some"} {
		b.Run("file="+file, func(b *testing.B) {
			w := newBenchNode(b)
			if file == "some" {
				w.logTo()
			}
			args := w.args(sandbox{id: "bench", pod: "bench", ifName: "eth0"}, nil)
			for b.Loop() {
				if err := w.plugin.Funcs().Add(args); err != nil {
					b.Fatal(err)
				}
				if err := w.plugin.Funcs().Del(args); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkUnknownDel runs the repeated DEL of a container that has ended.
func BenchmarkUnknownDel(b *testing.B) {
	for _, used := range []int{0, 50000} {
		b.Run(fmt.Sprintf("used=%d", used), func(b *testing.B) {
			w := newBenchNode(b)
			w.fill(netip.MustParseAddr("10.1.0.2"), used)
			args := w.args(sandbox{id: "unknown", ifName: "eth0"}, nil)
			for b.Loop() {
				if err := w.plugin.Funcs().Del(args); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func newBenchNode(b *testing.B) *testNode {
	b.Helper()
	w := newTestNode(b)
	w.addInitial()
	return w
}

// addInitial makes the state, so that no measurement includes it.
func (w *testNode) addInitial() {
	w.t.Helper()
	if err := persistence.New(persistence.Options{Dir: w.dir}).Update(w.t.Context(), func(*persistence.Tx) error { return nil }); err != nil {
		w.t.Fatal(err)
	}
}

// fill attaches n addresses from first on, and returns the last.
func (w *testNode) fill(first netip.Addr, n int) netip.Addr {
	w.t.Helper()
	addr := first.Prev()
	err := persistence.New(persistence.Options{Dir: w.dir}).Update(w.t.Context(), func(tx *persistence.Tx) error {
		for i := range n {
			addr = addr.Next()
			name := fmt.Sprintf("c%d", i)
			id := reservation.AttachmentID{Network: network, ContainerID: name, IfName: "eth0"}
			owner := reservation.Owner{Network: network, Namespace: "ns", Pod: name, IfName: "eth0"}
			if err := tx.PutAttachment(reservation.Attachment{ID: id, Owner: owner, UID: name, Addresses: []netip.Addr{addr}, Since: w.now}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return addr
}
