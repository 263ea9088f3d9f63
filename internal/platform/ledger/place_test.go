package ledger_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/platform/ledger"
)

func placed(key, subset string, since time.Time) ledger.Entry {
	return ledger.Entry{UID: key, Subset: subset, Owner: "rs", Since: since, Expires: since.Add(ledger.Bound)}
}

func keysOf(b ledger.Book) []string { return slices.Sorted(maps.Keys(b.Entries)) }

// A creation takes the place of another entry, or of the entry that its pod has already.
func TestPlace(t *testing.T) {
	before := ledger.Place(ledger.Place(ledger.Book{}, placed("a", "x", start), ""), placed("/b", "x", start), "")
	cases := map[string]struct {
		key, replaces string
		want          []string
	}{
		"a further creation":      {"c", "", []string{"/b", "a", "c"}},
		"takes over":              {"c", "a", []string{"/b", "c"}},
		"takes over what is gone": {"c", "z", []string{"/b", "a", "c"}},
		"is tried again":          {"/b", "", []string{"/b", "a"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			after := ledger.Place(before, placed(tc.key, "y", start.Add(time.Second)), tc.replaces)
			if diff := cmp.Diff(tc.want, keysOf(after)); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			if e := after.Entries[tc.key]; e.Use != ledger.Placed || e.Subset != "y" {
				t.Errorf("entry is %+v", e)
			}
			if diff := cmp.Diff([]string{"/b", "a"}, keysOf(before)); diff != "" {
				t.Errorf("the book before was changed (-want +got):\n%s", diff)
			}
		})
	}
}

// A full book drops what is oldest, by number and by bytes.
func TestPlaceDropsTheOldestEntryOfAFullBook(t *testing.T) {
	for name, key := range map[string]func(i int) string{
		"many entries": func(i int) string { return fmt.Sprintf("request-%d", i) },
		"long names":   func(i int) string { return fmt.Sprintf("/%s-%d", strings.Repeat("\u0000", 240), i) },
	} {
		t.Run(name, func(t *testing.T) {
			var b ledger.Book
			const all = ledger.MostEntries + 5
			for i := range all {
				e := placed(key(i), "x", start.Add(time.Duration(i)*time.Millisecond))
				e.Pod = strings.TrimPrefix(e.UID, "/")
				b = ledger.Place(b, e, "")
			}
			_, first := b.Entries[key(0)]
			_, last := b.Entries[key(all-1)]
			if first || !last || len(b.Entries) > ledger.MostEntries {
				t.Errorf("%d entries, the oldest %t, the newest %t", len(b.Entries), first, last)
			}
		})
	}
}

func TestSettle(t *testing.T) {
	before := ledger.Book{Seen: "100"}
	for _, key := range []string{"a", "b", "/c"} {
		before = ledger.Place(before, placed(key, "x", start), "")
	}
	late := start.Add(ledger.Bound)
	cases := map[string]struct {
		seen map[string]string
		now  time.Time
		want []string
		know string
	}{
		"nothing was seen":              {nil, start, []string{"/c", "a", "b"}, "100"},
		"a pod was seen":                {map[string]string{"a": "120", "other": "999"}, start, []string{"/c", "b"}, "120"},
		"a pod of an older version":     {map[string]string{"/c": "99"}, start, []string{"a", "b"}, "100"},
		"just before they expire":       {nil, late.Add(-time.Millisecond), []string{"/c", "a", "b"}, "100"},
		"all expire, and one was a pod": {map[string]string{"b": "101"}, late, nil, "101"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			after, changed := ledger.Settle(before, tc.seen, tc.now)
			if diff := cmp.Diff(tc.want, keysOf(after)); diff != "" || after.Seen != tc.know || changed != (len(tc.want) < 3) {
				t.Errorf("changed %t, seen %s, entries (-want +got):\n%s", changed, after.Seen, diff)
			}
			if len(before.Entries) != 3 || before.Seen != "100" {
				t.Error("the book before was changed")
			}
		})
	}
}
