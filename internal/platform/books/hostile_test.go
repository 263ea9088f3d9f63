package books

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// A book must never be refused by the API server for its size. A tenant chooses the names of
// pods and budgets; names of users may have characters that JSON writes as six.
func TestGreatestBookCanBeWritten(t *testing.T) {
	now := time.Now()
	var book ledger.Book
	for i := range ledger.MostWaiting {
		book, _ = ledger.Ask(book, ledger.Waiting{UID: nameOfBudgets, Pod: strings.Repeat("p", 249) + fmt.Sprintf("%04d", i), By: strings.Repeat("<", 999), Since: now, Last: now})
	}
	for i := range 10 * ledger.MostDecisions {
		book, _ = ledger.Note(book, ledger.Decision{Time: now, Pod: fmt.Sprint(i), By: strings.Repeat("<", 999), Budgets: []string{fmt.Sprint(strings.Repeat("w", 250), i/16)}})
	}
	full := filled(book, strings.Repeat("p", 249), strings.Repeat("<", 999), strings.Repeat("9", 19), 1<<40)
	size := written(t, full)
	t.Logf("a book with the greatest names is full with %d entries and %d bytes", len(full.Entries), size)
	if !ledger.Full(full) || size > 1<<20+1<<18 { // etcd takes 1.5 MiB
		t.Errorf("%d bytes", size)
	}
	full = filled(ledger.Book{}, "web-5d4f8c7b6-", "system:serviceaccount:kube-system:drainer", "123456789", 1)
	size = written(t, full)
	t.Logf("a book with usual names is full with %d entries and %d bytes", len(full.Entries), size)
	if len(full.Entries) != ledger.MostEntries || size > 1<<20 {
		t.Errorf("%d entries and %d bytes, want %d entries in less than 1 MiB", len(full.Entries), size, ledger.MostEntries)
	}
}

// filled takes pods into a book until it is full.
func filled(b ledger.Book, pod, by, version string, generation int64) ledger.Book {
	for i, ok := 0, true; ok; i++ {
		e := entry(fmt.Sprintf("%036d", i))
		e.Pod, e.By, e.Version, e.Generation, e.Restarts = fmt.Sprintf("%s%04d", pod, i), by, version, generation, generation
		b, ok = ledger.Take(b, e)
	}
	return b
}

// written writes a book, and returns its bytes.
func written(t *testing.T, book ledger.Book) int {
	t.Helper()
	ns := env.Namespace(t)
	mustDecide(t, replica(t), ns, func(ledger.Book) (ledger.Book, bool) { return book, true })
	data, err := json.Marshal(object(t, ns))
	if err != nil {
		t.Fatal(err)
	}
	return len(data)
}
