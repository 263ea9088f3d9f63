package cni_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/cni"
	"github.com/limpet-io/limpet/internal/hostlocal"
)

// TestHostLocalAddressesAreNotHandedOut starts on a directory of host-local's without any import.
func TestHostLocalAddressesAreNotHandedOut(t *testing.T) {
	w := newTestNode(t)
	w.hostLocal("10.1.0.2", "old1\r\neth0")
	w.hostLocal("10.1.0.4", "old2") // written before 2018
	w.hostLocal("10.1.0.5", "")     // being written, or cut short
	w.hostLocal("last_reserved_ip.0", "10.1.0.2")
	w.hostLocal("fd00:1::2", "old1\r\neth0")
	if got := w.mustAdd(plain("a")); !slices.Equal(got, ips("10.1.0.3", "fd00:1::3")) {
		t.Errorf("the first ADD took %v", got)
	}
	if got := w.mustAdd(plain("b")); !slices.Equal(got, ips("10.1.0.6", "fd00:1::4")) {
		t.Errorf("the second ADD took %v", got)
	}
	if _, err := w.add(plain("c")); codeOf(err) != cni.CodeExhausted {
		t.Errorf("the third ADD: %v, want code %d", err, cni.CodeExhausted)
	}
	w.forget("10.1.0.4") // by a DEL that the runtime sent to host-local
	if got := w.mustAdd(plain("c")); got[0] != netip.MustParseAddr("10.1.0.4") {
		t.Errorf("the address that host-local freed was not handed out: %v", got)
	}
}

func TestHostLocalCursorIsContinued(t *testing.T) {
	w := newTestNode(t)
	w.hostLocal("last_reserved_ip.0", "10.1.0.4")
	w.hostLocal("last_reserved_ip.1", "garbage")
	if got := w.mustAdd(plain("a")); !slices.Equal(got, ips("10.1.0.5", "fd00:1::2")) {
		t.Errorf("got %v", got)
	}
}

func TestRequestedAddressOfHostLocal(t *testing.T) {
	w := newTestNode(t)
	w.hostLocal("10.1.0.3", "old\r\neth0")
	_, err := w.addUncached(plain("a"), map[string]any{"runtimeConfig": map[string]any{"ips": []string{"10.1.0.3"}}})
	if codeOf(err) != cni.CodeRequested {
		t.Errorf("%v, want code %d", err, cni.CodeRequested)
	}
}

// TestOldPodEnds sends the DEL of a pod that host-local started.
func TestOldPodEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		file  string
		asks  bool
		keeps bool
	}{
		"one that asks for nothing frees its addresses":   {file: "c-web\r\neth0"},
		"one that asks for retention keeps them":          {file: "c-web\r\neth0", asks: true, keeps: true},
		"one with a file of before 2018 keeps them":       {file: "c-web", asks: true, keeps: true},
		"one with a line feed behind its name keeps them": {file: "c-web\r\neth0\r\n ", asks: true, keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			w.hostLocal("fd00:1::9", tc.file)
			w.hostLocal("10.1.0.4", tc.file)
			w.hostLocal("10.1.0.5", "another\r\neth0")
			w.hostLocal("10.1.0.6", "c-web\r\nnet1")
			s := lostSandbox("web", tc.asks)
			for range 2 { // runtimes repeat it
				if err := w.del(s); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff([]string{"10.1.0.5", "10.1.0.6", "lock"}, w.hostLocalFiles()); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			w.mustAdd(plain("other"))
			got := w.mustAdd(next(s))
			if slices.Equal(got, ips("10.1.0.4", "fd00:1::9")) != tc.keeps {
				t.Errorf("the pod came back to %v", got)
			}
		})
	}
}

// TestLateDELOfAnOldPodSparesItsSuccessor sends the DEL of a pod that host-local started after the
// ADD of its successor (rule 3).
func TestLateDELOfAnOldPodSparesItsSuccessor(t *testing.T) {
	w := newTestNode(t)
	w.hostLocal("10.1.0.4", "c-web\r\neth0")
	old := lostSandbox("web", true)
	got := w.mustAdd(next(old))
	if slices.Contains(got, netip.MustParseAddr("10.1.0.4")) {
		t.Fatalf("shares %v with its predecessor", got)
	}
	before := w.read()
	if err := w.del(old); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, w.read(), byValue); diff != "" {
		t.Errorf("the late DEL changed (-before +after):\n%s", diff)
	}
	if files := w.hostLocalFiles(); slices.Contains(files, "10.1.0.4") {
		t.Errorf("left %q", files)
	}
}

func TestOldPodIsChecked(t *testing.T) {
	w := newTestNode(t)
	w.hostLocal("10.1.0.4", "c-web\r\neth0")
	w.hostLocal("fd00:1::4", "c-web\r\neth0")
	prev := func(a string) map[string]any {
		return map[string]any{"prevResult": map[string]any{"ips": []map[string]string{{"address": a + "/29"}, {"address": "fd00:1::4/64"}}}}
	}
	for _, stage := range []string{"before the first ADD", "after it"} {
		if err := w.plugin.Funcs().Check(w.args(plain("web"), prev("10.1.0.4"))); err != nil {
			t.Errorf("%s: %v", stage, err)
		}
		if err := w.plugin.Funcs().Check(w.args(plain("web"), prev("10.1.0.5"))); codeOf(err) != cni.CodeUnknown {
			t.Errorf("%s, another address: %v", stage, err)
		}
		w.mustAdd(plain("a" + stage[:1]))
	}
}

func TestGCEndsOldPods(t *testing.T) {
	w := newTestNode(t)
	w.hostLocal("10.1.0.4", "gone\r\neth0")
	w.hostLocal("10.1.0.5", "runs\r\neth0")
	err := w.plugin.Funcs().GC(w.args(plain("x"), map[string]any{"cni.dev/valid-attachments": []map[string]string{{"containerID": "runs", "ifname": "eth0"}}}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"10.1.0.5", "lock"}, w.hostLocalFiles()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestHostLocalTookAReservedAddress is possible while both plugins hand out addresses and
// no files are mirrored.
func TestHostLocalTookAReservedAddress(t *testing.T) {
	w := newTestNode(t)
	s := lostSandbox("web", true)
	was := w.mustAdd(s)
	if err := w.del(s); err != nil {
		t.Fatal(err)
	}
	w.hostLocal(was[0].String(), "theirs\r\neth0")
	if got := w.mustAdd(next(s)); slices.Contains(got, was[0]) {
		t.Errorf("%s has two holders", was[0])
	}
}

// TestAbandonedFileIsFreedAfterADelay has a file without a container, which host-local never
// frees.
func TestAbandonedFileIsFreedAfterADelay(t *testing.T) {
	w := newTestNode(t)
	for i := 2; i <= 5; i++ {
		w.hostLocal(fmt.Sprintf("10.1.0.%d", i), "c\r\neth0")
	}
	w.hostLocal("10.1.0.6", "")
	if _, err := w.add(plain("a")); codeOf(err) != cni.CodeExhausted {
		t.Errorf("took an address that is perhaps being written: %v", err)
	}
	w.pass(time.Hour)
	if got := w.mustAdd(plain("a")); got[0] != netip.MustParseAddr("10.1.0.6") {
		t.Errorf("got %v", got)
	}
}

// TestForkRecordsAreHonored starts on the records of host-local's fork. An address file may name
// an earlier container than the record.
func TestForkRecordsAreHonored(t *testing.T) {
	const released = `{"containerId":"c-web","ifName":"eth0","IPConf":{"address":"10.1.0.4/29"},"duration":10,"releaseTime":"2025-12-31T23:55:00Z"}`
	for name, tc := range map[string]struct {
		record string
		do     func(*testNode) error
		keeps  bool
		left   []string // files of host-local once the pod is back
	}{
		"one whose time runs gets its address":  {record: released, keeps: true, left: []string{"10.1.0.5", "lock"}},
		"one whose time is over gets another":   {record: strings.Replace(released, "23:55", "23:45", 1), left: []string{"10.1.0.5", "lock"}},
		"one of another interface gets another": {record: strings.Replace(released, "eth0", "net1", 1), left: []string{"10.1.0.4", "10.1.0.5"}},
		"a half-written record is ignored":      {record: released[:50], left: []string{"10.1.0.4", "10.1.0.5"}},
		"one that runs keeps its address to the end and beyond": {
			record: strings.Replace(released, `,"releaseTime":"2025-12-31T23:55:00Z"`, "", 1),
			do:     func(w *testNode) error { return w.plugin.Funcs().Del(w.args(plain("web"), nil)) },
			keeps:  true, left: []string{"10.1.0.5", "lock"},
		},
		"a DEL of an earlier container does not end it": {
			record: strings.Replace(released, `,"releaseTime":"2025-12-31T23:55:00Z"`, "", 1),
			do: func(w *testNode) error {
				s := lostSandbox("web", false)
				s.id = "c-earlier"
				return w.plugin.Funcs().Del(w.args(s, nil))
			},
			left: []string{"10.1.0.4", "10.1.0.5"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			w.ipam = oneStack
			w.hostLocal("10.1.0.4", "c-first\r\neth0")
			w.hostLocal("10.1.0.5", "c-other\r\neth0")
			w.forkRecord("web", tc.record)
			if tc.do != nil {
				if err := tc.do(w); err != nil {
					t.Fatal(err)
				}
			}
			for _, other := range []string{"a", "b"} {
				if got := w.mustAdd(plain(other)); got[0] == netip.MustParseAddr("10.1.0.4") {
					t.Errorf("%s was given %v", other, got)
				}
			}
			got := w.mustAdd(next(lostSandbox("web", true)))
			if slices.Equal(got, ips("10.1.0.4")) != tc.keeps {
				t.Errorf("the pod came back to %v", got)
			}
			if diff := cmp.Diff(tc.left, w.hostLocalFiles()); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

// TestADDSucceedsWhenCleanupFails cannot remove the fork's record, because host-local has its
// lock. A failing ADD would leave the stored addresses without a container.
func TestADDSucceedsWhenCleanupFails(t *testing.T) {
	w := newTestNode(t)
	w.ipam = map[string]any{"ranges": oneStack["ranges"], "lockWait": "10ms"}
	w.hostLocal("10.1.0.4", "c-first\r\neth0")
	w.forkRecord("web", `{"containerId":"c-first","ifName":"eth0","IPConf":{"address":"10.1.0.4/29"},"duration":10,"releaseTime":"2025-12-31T23:55:00Z"}`)
	lock, err := hostlocal.New(filepath.Join(w.dir, network)).Lock(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	s := next(lostSandbox("web", true))
	if got := w.mustAdd(s); !slices.Equal(got, ips("10.1.0.4")) {
		t.Errorf("got %v, want 10.1.0.4", got)
	}
	if !strings.Contains(w.log.String(), "level=WARN") {
		t.Errorf("no warning in %s", w.log.String())
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	w.ipam["lockWait"] = "1m" // a busy machine may take longer than before
	w.mustDel(s)
	w.mustAdd(next(s))
	if left := w.hostLocalFiles(); !slices.Equal(left, []string{"lock"}) {
		t.Errorf("the next ADD left %v", left)
	}
}

// TestHostLocalContainerBesideAKnownOne ends a container that only host-local knew. The state knows
// another container of the pod, which never had a DEL.
func TestHostLocalContainerBesideAKnownOne(t *testing.T) {
	for name, tc := range map[string]struct {
		older bool // than the other
		alive bool // is the other
		want  []netip.Addr
	}{
		"the pod comes back to the newest one": {want: ips("10.1.0.5")},
		"unless it is the older one":           {older: true},
		"or the other one is alive":            {alive: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			w.ipam = oneStack
			s := lostSandbox("web", true)
			if tc.older {
				w.hostLocal("10.1.0.5", "c-web-next\r\neth0")
				w.pass(time.Minute)
			}
			w.start(s)
			w.mustAdd(s)
			if !tc.alive {
				delete(w.netns, s.netns())
			}
			w.pass(5 * time.Minute)
			if !tc.older {
				w.hostLocal("10.1.0.5", "c-web-next\r\neth0")
				w.pass(time.Minute)
			}
			w.mustDel(next(s))
			if got := w.read().Reserved[s.owner()].Addresses; !slices.Equal(got, tc.want) {
				t.Errorf("reserved %v, want %v", got, tc.want)
			}
			if tc.want == nil {
				return
			}
			if got := w.mustAdd(next(next(s))); !slices.Equal(got, tc.want) {
				t.Errorf("came back to %v, want %v", got, tc.want)
			}
		})
	}
}

// TestLapsedForkRecordsFreeTheirAddresses has records of pods that never come back.
func TestLapsedForkRecordsFreeTheirAddresses(t *testing.T) {
	w := newTestNode(t)
	w.ipam = oneStack
	for i := 2; i <= 6; i++ {
		pod := fmt.Sprintf("web-%d", i)
		w.hostLocal(fmt.Sprintf("10.1.0.%d", i), "c-"+pod+"\r\neth0")
		w.forkRecord(pod, fmt.Sprintf(`{"containerId":"x","ifName":"eth0","IPConf":{"address":"10.1.0.%d/29"},"duration":%d,"releaseTime":"2025-12-31T23:55:00Z"}`, i, i))
	}
	got := map[netip.Addr]bool{}
	for i := range 4 {
		addrs, err := w.add(plain(fmt.Sprintf("new%d", i)))
		if err == nil {
			got[addrs[0]] = true
		}
	}
	if want := map[netip.Addr]bool{ips("10.1.0.2")[0]: true, ips("10.1.0.3")[0]: true, ips("10.1.0.4")[0]: true, ips("10.1.0.5")[0]: true}; !cmp.Equal(want, got, byValue) {
		t.Errorf("handed out %v, want %v: reservations of 2 to 5 minutes have lapsed", got, want)
	}
}

var oneStack = map[string]any{"ranges": json.RawMessage(`[[{"subnet":"10.1.0.0/29"}]]`)}

var byValue = cmp.Comparer(func(a, b netip.Addr) bool { return a == b })

func plain(pod string) sandbox { return lostSandbox(pod, false) }

func ips(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, s := range texts {
		all = append(all, netip.MustParseAddr(s))
	}
	return all
}

// hostLocal writes a file as host-local does.
func (w *testNode) hostLocal(name, content string) {
	w.t.Helper()
	dir := filepath.Join(w.dir, network)
	path := filepath.Join(dir, name)
	err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(path, []byte(content), 0o600), os.Chtimes(path, w.now.Wall, w.now.Wall))
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *testNode) forget(name string) {
	w.t.Helper()
	if err := os.Remove(filepath.Join(w.dir, network, name)); err != nil {
		w.t.Fatal(err)
	}
}

// forkRecord writes the record of a pod as the fork of host-local does.
func (w *testNode) forkRecord(pod, record string) {
	w.t.Helper()
	dir := filepath.Join(w.dir, "reserved", "ns")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, pod), []byte(record), 0o600)); err != nil {
		w.t.Fatal(err)
	}
}

// hostLocalFiles lists host-local's directory without its cursors.
func (w *testNode) hostLocalFiles() []string {
	w.t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.dir, network))
	if err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "last_reserved_ip.") {
			names = append(names, e.Name())
		}
	}
	return names
}
