package cni_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"
)

var mirroring = map[string]any{"mirrorHostLocal": true}

// TestMirrorFollows goes through a pod's life. A mirrored file ends in a line feed, which
// host-local trims.
func TestMirrorFollows(t *testing.T) {
	w := newTestNode(t)
	early := plain("early")
	w.mustAdd(early)
	w.ipam = mirroring
	s := lostSandbox("web", true)
	was := w.mustAdd(s)
	want := []string{"10.1.0.2", "10.1.0.3", "fd00:1::2", "fd00:1::3"}
	if diff := cmp.Diff(want, w.hostLocalFiles()); diff != "" {
		t.Errorf("files, those of the earlier pod among them (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{"10.1.0.3": "c-web\r\neth0\n", "last_reserved_ip.0": "10.1.0.3", "last_reserved_ip.1": "fd00:1::3"} {
		if got, err := os.ReadFile(filepath.Join(w.dir, network, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v, want %q", name, got, err, want)
		}
	}
	if err := w.del(s); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want[:1:1], w.hostLocalFiles()[:1]); diff != "" || len(w.hostLocalFiles()) != 2 {
		t.Errorf("files after DEL: %q", w.hostLocalFiles())
	}
	if got := w.mustAdd(next(s)); !slices.Equal(got, was) {
		t.Errorf("came back to %v, had %v", got, was)
	}
	w.ipam = nil
	for _, s := range []sandbox{early, next(s)} {
		if err := w.del(s); err != nil {
			t.Fatal(err)
		}
	}
	if files := w.hostLocalFiles(); len(files) != 0 {
		t.Errorf("mirrored files outlast their pods, though mirroring is off: %q", files)
	}
}

// TestMirrorFails shows that an ADD which fails leaves no file.
func TestMirrorFails(t *testing.T) {
	w := newTestNode(t)
	w.ipam = mirroring
	w.mustAdd(plain("a"))
	w.orphan = true
	if _, err := w.add(plain("b")); codeOf(err) != types.ErrTryAgainLater {
		t.Fatalf("ADD without a caller: %v", err)
	}
	if diff := cmp.Diff([]string{"10.1.0.2", "fd00:1::2"}, w.hostLocalFiles()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// TestMirrorThatOutlivedItsPod has what a power loss leaves: the state was synced, the
// removal of the file was not.
func TestMirrorThatOutlivedItsPod(t *testing.T) {
	for _, on := range []bool{true, false} {
		w := newTestNode(t)
		w.addInitial()
		w.hostLocal("10.1.0.2", "ended\r\neth0\n")
		w.ipam = map[string]any{"mirrorHostLocal": on}
		if got := w.mustAdd(plain("a")); got[0] != netip.MustParseAddr("10.1.0.2") {
			t.Errorf("mirroring %t: a free address is not handed out: %v", on, got)
		}
	}
}

// TestLostStateIsRebuiltFromTheMirror has neither a cache nor namespaces to ask.
func TestLostStateIsRebuiltFromTheMirror(t *testing.T) {
	w := newTestNode(t)
	w.ipam = mirroring
	s := plain("web")
	was := w.mustAdd(s)
	w.damage(os.Remove)
	for _, other := range []string{"a", "b"} {
		if got := w.mustAdd(plain(other)); slices.Equal(got, was) {
			t.Errorf("%v, which a pod has, went to %s", got, other)
		}
	}
	if a := w.read().Attached[s.attachment()]; !slices.Equal(a.Addresses, was) {
		t.Errorf("rebuilt %+v", a)
	}
	if err := w.del(s); err != nil {
		t.Fatal(err)
	}
	if _, left := w.read().Attached[s.attachment()]; left {
		t.Error("DEL did not end it")
	}
}
