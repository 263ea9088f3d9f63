package cni_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEarlierStateFileIsNotBelieved puts earlier, sound files in the place of the newest, as a person does with a backup. Pods
// that started since keep their addresses, and so do reservations of the earlier files.
func TestEarlierStateFileIsNotBelieved(t *testing.T) {
	nothing := func(*testNode) {}
	for name, tc := range map[string]struct {
		before, since func(w *testNode)
		back          []string
	}{
		"the journal":                      {before: nothing, since: nothing, back: []string{"limpet.journal"}},
		"the journal, after a fold":        {before: nothing, since: (*testNode).compact, back: []string{"limpet.journal"}},
		"a fold, after two":                {before: (*testNode).compact, since: (*testNode).foldTwice, back: []string{"limpet.db", "limpet.db.2"}},
		"all but the marker":               {before: nothing, since: nothing, back: []string{"limpet.db", "limpet.db.2", "limpet.journal"}},
		"all but the marker, after a fold": {before: nothing, since: (*testNode).compact, back: []string{"limpet.db", "limpet.db.2", "limpet.journal"}},
	} {
		for how, cached := range map[string]bool{"libcni's cache names the pod": true, "only the namespace shows the pod": false} {
			t.Run(name+", "+how, func(t *testing.T) {
				w := newTestNode(t)
				kept, gone, since := lostSandbox("kept", true), lostSandbox("gone", false), lostSandbox("since", false)
				w.start(kept)
				w.start(gone)
				had := w.mustAdd(kept)
				w.mustAdd(gone)
				w.mustDel(kept)
				tc.before(w)
				earlier := w.files()
				w.mustDel(gone)
				w.start(since)
				running := w.mustAdd(since)
				if cached {
					w.cacheWhole(since, running)
				}
				w.recovery.Interfaces = w.interfaces(map[string][]netip.Addr{"since": running}, since)
				tc.since(w)
				for _, file := range tc.back {
					if err := os.WriteFile(filepath.Join(w.dir, file), earlier[file], 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if again := w.mustAdd(next(kept)); !slices.Equal(again, had) {
					t.Errorf("came back to %v, had %v", again, had)
				}
				for i := 0; ; i++ {
					addrs, err := w.add(plain("new-" + string(rune('a'+i))))
					if err != nil {
						break // the range is exhausted
					}
					if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return slices.Contains(running, a) }) {
						t.Fatalf("got %v, and a running pod has %v", addrs, running)
					}
				}
				if n := strings.Count(w.log.String(), "State was lost or damaged and is rebuilt"); n != 1 {
					t.Errorf("rebuilt %d times:\n%s", n, w.log.String())
				}
				if backups, _ := filepath.Glob(filepath.Join(w.dir, "limpet.db.damaged-*")); len(backups) != 1 {
					t.Errorf("kept %q", backups)
				}
			})
		}
	}
}

// TestNewStateHoldsWhatNamespacesHave loses state and marker. An address in a namespace is of the
// network if it is in the ranges and host-local has no file of it.
func TestNewStateHoldsWhatNamespacesHave(t *testing.T) {
	w := newTestNode(t)
	s := lostSandbox("web", false)
	w.start(s)
	was := w.mustAdd(s) // its cache entry has no addresses
	if err := os.RemoveAll(w.dir); err != nil {
		t.Fatal(err)
	}
	w.hostLocal("10.1.0.3", "c-other\r\neth0")
	other := lostSandbox("other", false)
	w.start(other)
	w.recovery.Interfaces = w.interfaces(map[string][]netip.Addr{
		"web": was, "other": {netip.MustParseAddr("10.1.0.3"), netip.MustParseAddr("192.0.2.7")},
	}, s, other)
	w.mustAdd(lostSandbox("new", false))
	held := map[string][]netip.Addr{}
	for id, a := range w.read().Attached {
		if id.IsNetNSPlaceholder() {
			held[a.NetNS.Path] = a.Addresses
		}
	}
	if len(held) != 1 || !slices.Equal(held[s.netns()], was) {
		t.Errorf("held %v, want %v of %s", held, was, s.netns())
	}
	if !strings.Contains(w.log.String(), "no record names") {
		t.Errorf("no warning:\n%s", w.log.String())
	}
	if err := w.del(s); err != nil {
		t.Fatal(err)
	}
	for id := range w.read().Attached {
		if id.IsNetNSPlaceholder() {
			t.Errorf("%s is held after the DEL", id)
		}
	}
}
