package books

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/limpet-io/limpet/pkg/ledger"
)

// BenchmarkDecide measures the time of a decision at 50 decisions each second for each book.
// Each one adds an entry and removes the one that was added 50 decisions before.
func BenchmarkDecide(b *testing.B) {
	for _, c := range []struct{ books, entries int }{{1, 0}, {1, 200}, {1, 2000}, {2, 0}} {
		b.Run(fmt.Sprintf("%d-books-%d-entries", c.books, c.entries), func(b *testing.B) {
			paced(b, c.books, c.entries, 20*time.Millisecond)
		})
	}
}

// BenchmarkTogether measures how many decisions of one book, and of two books, can be made when
// 50 requests are under way at any time.
func BenchmarkTogether(b *testing.B) {
	for _, books := range []int{1, 2} {
		b.Run(fmt.Sprintf("%d-books", books), func(b *testing.B) {
			shell, ns, budgets := replica(b), env.Namespace(b), sorted(books)
			for i := range budgets {
				decide(b, shell, ns, budgets[i:i+1], 0)
			}
			b.SetParallelism(25) // times the number of processors
			var mu sync.Mutex
			n := 0
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					mu.Lock()
					n++
					mine := n
					mu.Unlock()
					decide(b, shell, ns, budgets[mine%books:mine%books+1], mine)
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
		})
	}
}

func decide(b *testing.B, shell *Books, ns string, budgets []Owner, n int) {
	mustDecide(b, shell, ns, budgets, func(book ledger.Book) (ledger.Book, bool) {
		if old, ok := book.Entries[fmt.Sprintf("%036d", n-50)]; ok {
			book, _ = ledger.Remove(book, old)
		}
		return ledger.Take(book, benchEntry(n))
	})
}

func benchEntry(n int) ledger.Entry {
	e := entry(fmt.Sprintf("%036d", n))
	e.Pod, e.By, e.Version, e.Generation, e.ReadySince = fmt.Sprint("web-5d4f8c7b6-", n), "system:serviceaccount:kube-system:drainer", "123456789", 1, time.Now()
	return e
}

// paced makes b.N decisions with each book, at a fixed rate, and reports how long they took.
func paced(b *testing.B, books, entries int, interval time.Duration) {
	shell, ns, budgets := replica(b), env.Namespace(b), sorted(books)
	for i := range budgets {
		mustDecide(b, shell, ns, budgets[i:i+1], func(book ledger.Book) (ledger.Book, bool) {
			for n := range entries {
				book, _ = ledger.Take(book, benchEntry(1_000_000+n))
			}
			return ledger.Take(book, benchEntry(0))
		})
	}
	took := make([]time.Duration, books*b.N)
	var wg sync.WaitGroup
	tick := time.NewTicker(interval)
	defer tick.Stop()
	b.ResetTimer()
	for n := range b.N {
		<-tick.C
		for i := range budgets {
			wg.Go(func() {
				began := time.Now()
				decide(b, shell, ns, budgets[i:i+1], n+1)
				took[n*books+i] = time.Since(began)
			})
		}
	}
	wg.Wait()
	b.StopTimer()
	slices.Sort(took)
	for name, share := range map[string]float64{"p50-ms": 0.5, "p99-ms": 0.99, "max-ms": 1} {
		b.ReportMetric(float64(took[int(share*float64(len(took)-1))].Microseconds())/1000, name)
	}
	b.ReportMetric(0, "ns/op")
}
