package cni_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"
)

// lapsed is the record of a running container, on which the fork stamped the late DEL of an
// earlier one.
const lapsed = `{"containerId":"c-web","ifName":"eth0","IPConf":{"address":"10.1.0.2/29"},"duration":10,"releaseTime":"2025-12-30T00:00:00Z"}`

// livingPodOfFork returns a node with a state and a running pod that the fork started.
func livingPodOfFork(t *testing.T) (*testNode, sandbox) {
	t.Helper()
	w := newTestNode(t)
	w.ipam = oneStack
	first := plain("first")
	w.mustAdd(first)
	if err := w.del(first); err != nil {
		t.Fatal(err)
	}
	w.hostLocal("10.1.0.2", "c-earlier\r\neth0")
	w.forkRecord("web", lapsed)
	s := lostSandbox("web", true)
	w.start(s)
	w.cacheWhole(s, ips("10.1.0.2"))
	return w, s
}

// TestForkRecordOfALivingPodNeverLapses hands out every address but that of a running pod whose
// record has lapsed (rule 1).
func TestForkRecordOfALivingPodNeverLapses(t *testing.T) {
	w, s := livingPodOfFork(t)
	for _, pod := range []string{"a", "b", "c", "d", "e", "f"} {
		if got, err := w.add(plain(pod)); err == nil && got[0] == netip.MustParseAddr("10.1.0.2") {
			t.Fatalf("%s got %v, which %s has", pod, got, s.pod)
		}
	}
	delete(w.netns, s.netns())
	if got := w.mustAdd(plain("last")); !slices.Equal(got, ips("10.1.0.2")) {
		t.Errorf("got %v once the pod is gone", got)
	}
}

// TestLivingPodOfTheForkIsAPredecessor is rule 4 for a pod that the fork started.
func TestLivingPodOfTheForkIsAPredecessor(t *testing.T) {
	for name, goes := range map[string]bool{"one that goes leaves its address": true, "one that stays is waited for within a bound": false} {
		t.Run(name, func(t *testing.T) {
			w, s := livingPodOfFork(t)
			w.forkRecord("web", lapsed[:len(lapsed)-len(`2025-12-30T00:00:00Z"}`)]+`2025-12-31T23:55:00Z"}`)
			for range 2 {
				if got, err := w.add(next(s)); codeOf(err) != types.ErrTryAgainLater {
					t.Fatalf("got %v, %v beside the living predecessor, want code 11", got, err)
				}
			}
			if goes {
				delete(w.netns, s.netns())
			}
			w.pass(time.Minute)
			if got := w.mustAdd(next(s)); slices.Equal(got, ips("10.1.0.2")) != goes {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestForkRecordOfAnAddressThatAnotherPodHas has a record of an address that the state gave to
// another pod.
func TestForkRecordOfAnAddressThatAnotherPodHas(t *testing.T) {
	w := newTestNode(t)
	w.ipam = oneStack
	w.mustAdd(plain("other"))
	w.hostLocal("10.1.0.2", "c-earlier\r\neth0")
	w.forkRecord("web", strings.Replace(strings.Replace(lapsed, "2025-12-30T00:00", "2025-12-31T23:55", 1), "c-web", "c-earlier", 1))
	if got := w.mustAdd(lostSandbox("web", true)); !slices.Equal(got, ips("10.1.0.3")) {
		t.Errorf("got %v", got)
	}
	if strings.Contains(w.log.String(), "rebuilt") {
		t.Errorf("took that for damage:\n%s", w.log.String())
	}
}

// TestGCKeepsForkReservations runs GC while the fork's records have not lapsed.
func TestGCKeepsForkReservations(t *testing.T) {
	kept := strings.Replace(lapsed, "2025-12-30T00:00", "2025-12-31T23:55", 1)
	for name, tc := range map[string]struct {
		record string
		valid  string
		keeps  bool
	}{
		"one whose time runs":                   {record: kept, valid: "zz", keeps: true},
		"one whose time is over":                {record: lapsed, valid: "zz"},
		"one whose later container still lives": {record: lapsed, valid: "c-web", keeps: true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, state := range []bool{false, true} {
				w := newTestNode(t)
				w.ipam = oneStack
				if state {
					w.mustAdd(plain("first"))
				}
				w.hostLocal("10.1.0.5", "c-earlier\r\neth0")
				w.forkRecord("web", strings.Replace(tc.record, "10.1.0.2", "10.1.0.5", 1))
				err := w.plugin.Funcs().GC(w.args(plain("x"), map[string]any{"cni.dev/valid-attachments": []map[string]string{{"containerID": tc.valid, "ifname": "eth0"}}}))
				if err != nil {
					t.Fatal(err)
				}
				if slices.Contains(w.hostLocalFiles(), "10.1.0.5") != tc.keeps {
					t.Errorf("left %q", w.hostLocalFiles())
				}
			}
		})
	}
}

// TestAdoptedPodOfTheForkComesBack ends a pod in its second life. The state took that life from
// libcni's cache, since the address file names the first.
func TestAdoptedPodOfTheForkComesBack(t *testing.T) {
	w := newTestNode(t)
	w.ipam = oneStack
	w.hostLocal("10.1.0.2", "c-earlier\r\neth0")
	w.forkRecord("web", strings.Replace(lapsed, `,"releaseTime":"2025-12-30T00:00:00Z"`, "", 1))
	s := lostSandbox("web", true)
	w.start(s)
	w.cacheWhole(s, ips("10.1.0.2"))
	w.mustAdd(plain("first"))
	if _, known := w.read().Attached[s.attachment()]; !known {
		t.Fatal("the pod was not adopted")
	}
	if err := w.del(s); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"lock"}, w.hostLocalFiles()); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	delete(w.netns, s.netns())
	if got := w.mustAdd(next(s)); !slices.Equal(got, ips("10.1.0.2")) {
		t.Errorf("came back to %v", got)
	}
}
