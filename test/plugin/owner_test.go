package plugin_test

import (
	"slices"
	"testing"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestAProcessKnowsOwners runs pods of one owner under three names. The second has no owner, as for a plugin that knows none.
func TestAProcessKnowsOwners(t *testing.T) {
	dir := t.TempDir()
	run := func(verb, name, owner string) answer {
		t.Helper()
		c := conf(dir, "1.1.0")
		c["runtimeConfig"] = map[string]any{"io.kubernetes.cri.pod-annotations": map[string]string{
			reservation.KeepAnnotation: "10m", reservation.OwnerAnnotation: owner,
		}}
		if verb == "DEL" {
			attached, _ := read(t, dir)
			withPrevious(c, attached[name].Addresses)
		}
		a := call{verb: verb, container: name, netns: "/run/netns/" + name, args: pod(name, name), conf: c}.run(t)
		if a.exit != 0 {
			t.Fatalf("%s %s: %s", verb, name, a.stdout)
		}
		return a
	}
	const owner = "apps/Deployment/web/db"
	had := run("ADD", "web-1", owner).addrs()
	run("DEL", "web-1", owner)
	if other := run("ADD", "web-2", "").addrs(); slices.Equal(other, had) {
		t.Errorf("a pod without the owner got %v of it", other)
	}
	if again := run("ADD", "web-3", owner).addrs(); !slices.Equal(again, had) {
		t.Errorf("came back to %v, had %v", again, had)
	}
	if left := run("DEL", "web-1", owner); left.stdout != "" {
		t.Errorf("a late DEL says %s", left.stdout)
	}
	if attached, reserved := read(t, dir); len(attached) != 2 || len(reserved) != 0 {
		t.Errorf("attached %v, reserved %v", attached, reserved)
	}
}
