package cni_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// said is one line of the log file.
type said struct {
	Time      time.Time
	Verb      string
	Outcome   string
	Network   string
	Pod       string
	Container string
	IfName    string
	Addresses []string
	Reason    string
	Notes     []map[string]any
	Code      uint
	Ms        float64
}

// logTo makes every verb of the node leave its line, and returns where.
func (w *testNode) logTo() string {
	w.plugin.LogFile = filepath.Join(w.t.TempDir(), "log", "ipam.log")
	return w.plugin.LogFile
}

func linesOf(t *testing.T, path string) []said {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var all []said
	for text := range bytes.Lines(data) {
		var s said
		if err := json.Unmarshal(text, &s); err != nil {
			t.Fatalf("line %q: %v", text, err)
		}
		all = append(all, s)
	}
	return all
}

func (w *testNode) lastLine() said {
	w.t.Helper()
	all := linesOf(w.t.(*testing.T), w.plugin.LogFile)
	if len(all) == 0 {
		w.t.Fatal("the log is empty")
	}
	return all[len(all)-1]
}

func TestEachVerbLeavesOneLine(t *testing.T) {
	w := newTestNode(t)
	path := w.logTo()
	keeps := sandbox{id: "0123456789abcdef", pod: "web-0", uid: "u0", ifName: "eth0", annotations: map[string]string{reservation.RetainAnnotation: "10"}}
	again := keeps
	again.id, again.uid = "fedcba9876543210", "u1"
	plain := sandbox{id: "plain", pod: "job", uid: "u2", ifName: "eth0"}
	verbs := w.plugin.Funcs()
	for i, step := range []struct {
		verb    string
		do      func() error
		want    string
		address string
	}{
		{"CHECK", func() error { return verbs.Check(w.args(keeps, nil)) }, "CHECK unknown 103 0123456789ab ns/web-0", ""},
		{"ADD", func() error { _, err := w.add(keeps); return err }, "ADD new 0 0123456789ab ns/web-0", "10.1.0.2"},
		{"ADD", func() error { _, err := w.add(keeps); return err }, "ADD refused 102 0123456789ab ns/web-0", ""},
		{"CHECK", func() error { return verbs.Check(w.args(keeps, nil)) }, "CHECK ok 0 0123456789ab ns/web-0", ""},
		{"DEL", func() error { return w.del(keeps) }, "DEL reserved 0 0123456789ab ns/web-0", "10.1.0.2"},
		{"DEL", func() error { return w.del(keeps) }, "DEL unknown 0 0123456789ab ns/web-0", ""},
		{"ADD", func() error { _, err := w.add(again); return err }, "ADD claimed 0 fedcba987654 ns/web-0", "10.1.0.2"},
		{"ADD", func() error { _, err := w.add(plain); return err }, "ADD new 0 plain ns/job", "10.1.0.3"},
		{"DEL", func() error { return w.del(plain) }, "DEL freed 0 plain ns/job", "10.1.0.3"},
		{"GC", func() error { return verbs.GC(w.args(plain, map[string]any{"cni.dev/valid-attachments": nil})) }, "GC ended 0 plain ns/job", ""},
		{"ADD", func() error { _, err := w.addUncached(plain, w.ipamWith(`{"lockWait":"soon"}`)); return err }, "ADD failed 7 plain ns/job", ""},
	} {
		w.start(keeps)
		err := step.do()
		lines := linesOf(t, path)
		if len(lines) != i+1 {
			t.Fatalf("step %d %s (%v): %d lines", i, step.verb, err, len(lines))
		}
		l := lines[i]
		if got := fmt.Sprintf("%s %s %d %s %s", l.Verb, l.Outcome, l.Code, l.Container, l.Pod); got != step.want {
			t.Errorf("step %d says %q, want %q", i, got, step.want)
		}
		if step.address != "" && (len(l.Addresses) != 2 || l.Addresses[0] != step.address) || step.address == "" && len(l.Addresses) > 0 {
			t.Errorf("step %d names %v, want %q", i, l.Addresses, step.address)
		}
		if err != nil && !strings.HasPrefix(l.Reason, err.Error()) {
			t.Errorf("step %d gives the reason %q, the error was %v", i, l.Reason, err)
		}
		if l.Network != network || l.IfName != "eth0" || !l.Time.Equal(w.now.Wall) {
			t.Errorf("step %d: %+v", i, l)
		}
	}
}

func TestForcedChoicesAreLogged(t *testing.T) {
	w := newTestNode(t)
	w.logTo()
	w.ipam = map[string]any{"maxReservedPercent": 100}
	for n := range 5 { // all of them
		s := sandbox{id: fmt.Sprintf("c%d", n), pod: fmt.Sprintf("web-%d", n), ifName: "eth0", annotations: map[string]string{reservation.RetainAnnotation: fmt.Sprint(20 - n)}}
		if _, err := w.add(s); err != nil {
			t.Fatal(err)
		}
		if err := w.del(s); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.add(sandbox{id: "new", pod: "other", ifName: "eth0"}); err != nil {
		t.Fatal(err)
	}
	l := w.lastLine()
	if l.Outcome != "reclaimed" || len(l.Notes) != 1 {
		t.Fatalf("%+v", l)
	}
	if n := l.Notes[0]; n["owner"] != "ns/web-4" || !strings.Contains(fmt.Sprint(n["addresses"]), "10.1.0.6") {
		t.Errorf("the note says %v", n)
	}
	odd := sandbox{id: "odd", pod: "odd", ifName: "eth0", annotations: map[string]string{reservation.RetainAnnotation: "soon"}}
	if _, err := w.add(odd); err != nil {
		t.Fatal(err)
	}
	if l := w.lastLine(); !strings.Contains(fmt.Sprint(l.Notes), "neither a duration nor a number of minutes") {
		t.Errorf("a request that cannot be granted is not logged: %+v", l)
	}
}

func TestLogFilePath(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		file    string
		written string // "" for nowhere
	}{
		"to the default":                               {written: filepath.Join(dir, "default", "ipam.log")},
		"where the configuration says":                 {file: filepath.Join(dir, "a", "b", "own.log"), written: filepath.Join(dir, "a", "b", "own.log")},
		"nowhere when told so":                         {file: "none"},
		"nowhere when the path is a directory":         {file: dir},
		"nowhere when no reader waits for it":          {file: fifo},
		"nowhere when a file stands for its directory": {file: "/dev/null/ipam.log"},
		"nowhere when the device is full":              {file: "/dev/full"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTestNode(t)
			w.plugin.LogFile = filepath.Join(dir, "default", "ipam.log")
			_ = os.Remove(w.plugin.LogFile) // of another case
			s := sandbox{id: "c", pod: "p", ifName: "eth0"}
			conf := map[string]any{}
			if tc.file != "" {
				conf = w.ipamWith(fmt.Sprintf(`{"logFile":%q}`, tc.file))
			}
			if _, err := w.addUncached(s, conf); err != nil {
				t.Fatalf("the log failed the verb: %v", err)
			}
			for _, path := range []string{w.plugin.LogFile, tc.file} {
				if !filepath.IsAbs(path) || path == fifo || strings.HasPrefix(path, "/dev") || path == dir {
					continue
				}
				if got := len(linesOf(t, path)); (path == tc.written) != (got == 1) {
					t.Errorf("%d lines in %s", got, path)
				}
			}
		})
	}
}

func TestTheLogIsBounded(t *testing.T) {
	w := newTestNode(t)
	path := w.logTo()
	conf := w.ipamWith(`{"logMaxBytes":2000}`)
	del := func() {
		t.Helper()
		if err := w.plugin.Funcs().Del(w.args(web0, conf)); err != nil {
			t.Fatal(err)
		}
	}
	for range 40 {
		del()
	}
	if open := openOf(t, filepath.Dir(path)); len(open) > 0 {
		t.Errorf("still open: %v", open)
	}
	newest, old := size(t, path), size(t, path+".1")
	if newest == 0 || newest > 2000 || old == 0 || old > 2000 {
		t.Errorf("%d bytes, and %d in the old file", newest, old)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 2 {
		t.Errorf("%d files, want the log and one old one: %v", len(entries), err)
	}

	f, err := os.Open(path) // a process that never closes the file
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		del()
	}
	if got := size(t, path); got <= 2000 || got > 4000 {
		t.Errorf("%d bytes without rotation, want up to twice the limit", got)
	}
}

// Verbs of one node run at the same time, and none may tear another's line.
func TestLinesStayWholeWhileTheLogRotates(t *testing.T) {
	w := newTestNode(t)
	path := w.logTo()
	conf := w.ipamWith(`{"logMaxBytes":6000}`)
	var verbs sync.WaitGroup
	for n := range 8 {
		verbs.Go(func() {
			s := sandbox{id: fmt.Sprintf("c%d", n), pod: "p", ifName: "eth0"}
			for range 20 {
				if err := w.plugin.Funcs().Status(w.args(s, map[string]any{"ipam": maps.Clone(conf["ipam"].(map[string]any))})); err != nil {
					t.Error(err)
				}
				if err := w.plugin.Funcs().Check(w.args(s, conf)); codeOf(err) != 103 {
					t.Error(err)
				}
			}
		})
	}
	verbs.Wait()
	for _, l := range append(linesOf(t, path), linesOf(t, path+".1")...) {
		if l.Verb != "CHECK" || l.Network != network {
			t.Errorf("%+v; STATUS is only told when it fails", l)
		}
	}
}

// openOf returns the files in a directory that this process has open.
func openOf(t *testing.T, dir string) (open []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(all) == 0 {
		t.Fatal(err)
	}
	for _, fd := range all {
		if path, _ := os.Readlink(fd); filepath.Dir(path) == dir { // one may be closed meanwhile
			open = append(open, path)
		}
	}
	return open
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestReleaseByHandIsLogged releases an address before there is a log, and after.
func TestReleaseByHandIsLogged(t *testing.T) {
	w := newTestNode(t)
	path := w.logTo()
	s := lostSandbox("web", true)
	byHand := func() {
		w.plugin.LogByHand("RELEASE", s.owner(), "0123456789abcdef", []netip.Addr{netip.MustParseAddr("10.1.0.2")}, "reserved for ns/web")
	}
	byHand()
	if got := linesOf(t, path); len(got) != 0 {
		t.Errorf("%+v, where no verb has made a log", got)
	}
	w.mustAdd(s)
	byHand()
	lines := linesOf(t, path)
	got := lines[len(lines)-1]
	want := said{Verb: "RELEASE", Outcome: "freed", Network: network, Pod: "ns/web", Container: "0123456789ab", IfName: "eth0", Addresses: []string{"10.1.0.2"}, Reason: "reserved for ns/web"}
	want.Time = got.Time
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
