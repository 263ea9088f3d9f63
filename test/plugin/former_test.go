package plugin_test

import (
	"crypto/sha256"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
	"github.com/limpet-io/limpet/test/cniexec"
)

// beforeLoans is the last commit whose plugin does not know addresses that follow their pods: it stands for the former release.
const beforeLoans = "db0ebcad"

// formerPlugin builds the plugin of that commit.
func formerPlugin(t *testing.T) string {
	t.Helper()
	const repo = "../.."
	if err := exec.CommandContext(t.Context(), "git", "-C", repo, "cat-file", "-e", beforeLoans+"^{commit}").Run(); err != nil {
		t.Skipf("this checkout does not have commit %s; a shallow clone has no history: git fetch --unshallow", beforeLoans)
	}
	source := t.TempDir()
	unpack := exec.CommandContext(t.Context(), "sh", "-c", `git -C "$1" archive --format=tar "$2" | tar -x -C "$3"`, "sh", repo, beforeLoans, source)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("unpack: %v: %s", err, out)
	}
	built, err := cniexec.BuildLimpet(t.Context(), source, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return built.Limpet
}

// filesOfState returns checksums of the files of a state.
func filesOfState(t *testing.T, dir string) map[string][sha256.Size]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "limpet.*"))
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string][sha256.Size]byte{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sums[filepath.Base(path)] = sha256.Sum256(data)
	}
	return sums
}

// TestTheWayFromTheFormerReleaseAndBack has both plugins take turns on one node. Once an address follows its pod the former one
// refuses the state, until no address follows and the layout is that of the former release again.
func TestTheWayFromTheFormerReleaseAndBack(t *testing.T) {
	former, dir := formerPlugin(t), t.TempDir()
	had := map[string][]netip.Addr{}
	do := func(plugin, verb, container, name string) answer {
		t.Helper()
		c := conf(dir, "1.1.0")
		if verb != "ADD" {
			withPrevious(c, had[name])
		}
		return kubelet(t, call{plugin: plugin, verb: verb, container: container, args: pod(name, container), conf: c})
	}
	add := func(plugin, container, name string) {
		t.Helper()
		got := do(plugin, "ADD", container, name).addrs()
		if before := had[name]; before != nil && !slices.Equal(before, got) {
			t.Errorf("%s came back to %v, had %v", name, got, before)
		}
		had[name] = got
	}
	holds := func(when string, attached, reserved []string) {
		t.Helper()
		as, rs := read(t, dir)
		names := map[string][]netip.Addr{}
		for _, a := range as {
			names["attached "+a.Owner.Pod] = a.Addresses
		}
		for _, r := range rs {
			names["reserved "+r.Owner.Pod] = r.Addresses
		}
		want := map[string][]netip.Addr{}
		for _, n := range attached {
			want["attached "+n] = had[n]
		}
		for _, n := range reserved {
			want["reserved "+n] = had[n]
		}
		if !maps.EqualFunc(names, want, slices.Equal) {
			t.Errorf("%s: the state is %v, want %v", when, names, want)
		}
	}
	store := persistence.New(persistence.Options{Dir: dir})

	for _, name := range []string{"runs", "ended", "stays"} {
		add(former, "c-"+name, name)
	}
	do(former, "DEL", "c-ended", "ended")
	holds("read by this version", []string{"runs", "stays"}, []string{"ended"})
	add("", "c-first", "first")
	add("", "c-ended-2", "ended")
	do("", "CHECK", "c-runs", "runs")
	do("", "DEL", "c-runs", "runs")
	tool(t, 0, dir, "compact")
	do(former, "CHECK", "c-stays", "stays")
	do(former, "CHECK", "c-ended-2", "ended")
	add(former, "c-runs-2", "runs")
	add(former, "c-more", "more")
	do(former, "DEL", "c-stays", "stays")
	holds("written by the former plugin again", []string{"runs", "first", "ended", "more"}, []string{"stays"})
	add("", "c-stays-2", "stays")

	follows := reservation.Attachment{
		ID:    reservation.AttachmentID{Network: "net", ContainerID: "c-follows", IfName: "eth0"},
		Owner: reservation.Owner{Network: "net", Namespace: "ns", Pod: "follows", IfName: "eth0"}, Addresses: []netip.Addr{netip.MustParseAddr("10.9.9.9")},
		Mode: reservation.Follow,
	}
	if err := store.Update(t.Context(), func(tx *persistence.Tx) error { return tx.PutAttachment(follows) }); err != nil {
		t.Fatal(err)
	}
	for fold := range 2 { // the journal stands on either
		before := filesOfState(t, dir)
		for _, verb := range []string{"ADD", "CHECK", "STATUS", "DEL"} {
			c := call{plugin: former, verb: verb, container: "c-stays-2", netns: "/none", args: pod("stays", "c-stays-2"), conf: withPrevious(conf(dir, "1.1.0"), had["stays"])}
			if verb == "ADD" {
				c.container, c.args, c.conf = "c-late", pod("late", "c-late"), conf(dir, "1.1.0")
			}
			a := c.run(t)
			if (a.exit == 0) != (verb == "DEL") || !strings.Contains(a.stdout+a.stderr, "newer version") { // a pod can end, and keeps its address
				t.Errorf("fold %d: former %s: exit %d, %s%s", fold, verb, a.exit, a.stdout, a.stderr)
			}
		}
		if after := filesOfState(t, dir); !maps.Equal(before, after) {
			t.Errorf("fold %d: the former plugin has written: %v, before %v", fold, slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
		}
		tool(t, 0, dir, "compact")
	}
	tool(t, 2, dir, "downgrade") // refused
	if err := store.Update(t.Context(), func(tx *persistence.Tx) error { return tx.DeleteAttachment(follows.ID) }); err != nil {
		t.Fatal(err)
	}
	tool(t, 0, dir, "downgrade")
	do(former, "CHECK", "c-runs-2", "runs")
	add(former, "c-late", "late")
	holds("lowered", []string{"runs", "first", "ended", "more", "stays", "late"}, nil)
}
