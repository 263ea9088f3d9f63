package books

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// BenchmarkDecide measures the time of a decision at 50 decisions each second for each of some namespaces.
// Each one adds an entry and removes the one that was added 50 decisions before.
func BenchmarkDecide(b *testing.B) {
	for _, c := range []struct{ books, entries int }{{1, 0}, {1, 200}, {1, 2000}, {2, 0}} {
		b.Run(fmt.Sprintf("%d-books-%d-entries", c.books, c.entries), func(b *testing.B) {
			paced(b, c.books, c.entries)
		})
	}
}

// BenchmarkWrite measures bare writes of one book at the same rate, for comparison.
func BenchmarkWrite(b *testing.B) {
	for _, entries := range []int{0, 2000} {
		b.Run(fmt.Sprintf("%d-entries", entries), func(b *testing.B) {
			shell, ns := replica(b), env.Namespace(b)
			fill(b, shell, ns, entries)
			o := object(b, ns)
			took := make([]time.Duration, b.N)
			tick := time.NewTicker(interval)
			defer tick.Stop()
			b.ResetTimer()
			for n := range b.N {
				<-tick.C
				began := time.Now()
				o.Seen = fmt.Sprint(n + 1)
				if err := shell.Client.Update(b.Context(), o); err != nil {
					b.Fatal(err)
				}
				took[n] = time.Since(began)
			}
			report(b, took)
		})
	}
}

// BenchmarkTogether measures how many decisions one replica and two can make in a namespace, when 50 requests
// are under way at any time.
func BenchmarkTogether(b *testing.B) {
	for _, c := range []int{1, 2} {
		b.Run(fmt.Sprintf("%d-replicas", c), func(b *testing.B) {
			ns := env.Namespace(b)
			var shells []*Books
			for range c {
				shells = append(shells, replica(b))
			}
			decide(b, shells[0], ns, 0)
			b.SetParallelism(25) // times the number of processors
			var n atomic.Int64
			var mu sync.Mutex
			var took []time.Duration
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					mine, began := int(n.Add(1)), time.Now()
					decide(b, shells[mine%c], ns, mine)
					mu.Lock()
					took = append(took, time.Since(began))
					mu.Unlock()
				}
			})
			rate := float64(b.N) / b.Elapsed().Seconds()
			report(b, took)
			b.ReportMetric(rate, "decisions/s")
		})
	}
}

func decide(b *testing.B, shell *Books, ns string, n int) {
	mustDecide(b, shell, ns, func(book ledger.Book) (ledger.Book, bool) {
		if old, ok := book.Entries[fmt.Sprintf("%036d", n-50)]; ok {
			book, _ = ledger.Remove(book, old)
		}
		return ledger.Take(book, benchEntry(n))
	})
}

func benchEntry(n int) ledger.Entry {
	e := entry(fmt.Sprintf("%036d", n))
	e.Pod, e.By, e.Version, e.Generation, e.Restarts = fmt.Sprint("web-5d4f8c7b6-", n), "system:serviceaccount:kube-system:drainer", "123456789", 1, 7
	return e
}

// interval is the time between two decisions of a book.
const interval = 20 * time.Millisecond

// fill makes a book with some entries, and one more.
func fill(b *testing.B, shell *Books, ns string, entries int) {
	b.Helper()
	mustDecide(b, shell, ns, func(book ledger.Book) (ledger.Book, bool) {
		for n := range entries {
			book, _ = ledger.Take(book, benchEntry(1_000_000+n))
		}
		return ledger.Take(book, benchEntry(0))
	})
}

// paced makes b.N decisions with each book, at a fixed rate.
func paced(b *testing.B, books, entries int) {
	shell := replica(b)
	var namespaces []string
	for range books {
		ns := env.Namespace(b)
		fill(b, shell, ns, entries)
		namespaces = append(namespaces, ns)
	}
	took := make([]time.Duration, books*b.N)
	var wg sync.WaitGroup
	tick := time.NewTicker(interval)
	defer tick.Stop()
	b.ResetTimer()
	for n := range b.N {
		<-tick.C
		for i, ns := range namespaces {
			wg.Go(func() {
				began := time.Now()
				decide(b, shell, ns, n+1)
				took[n*books+i] = time.Since(began)
			})
		}
	}
	wg.Wait()
	report(b, took)
}

func report(b *testing.B, took []time.Duration) {
	b.StopTimer()
	slices.Sort(took)
	for name, share := range map[string]float64{"p50-ms": 0.5, "p99-ms": 0.99, "max-ms": 1} {
		b.ReportMetric(float64(took[int(share*float64(len(took)-1))].Microseconds())/1000, name)
	}
	b.ReportMetric(0, "ns/op")
}
