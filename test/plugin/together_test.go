package plugin_test

import (
	"fmt"
	"net/netip"
	"sync"
	"testing"
)

// TestManyAtOnce starts more processes than a node has pods; each must get addresses of its
// own.
func TestManyAtOnce(t *testing.T) {
	n := 200
	if emulator != "" {
		n = 30 // of which each takes 0.2 s to start, and none waits for the lock for more than 20 s
	}
	dir := t.TempDir()
	all := func(verb string) []answer {
		answers := make([]answer, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				c := conf(dir, "1.1.0")
				c["ipam"].(map[string]any)["lockWait"] = "5m" // the last one waits for all others
				answers[i] = call{verb: verb, container: fmt.Sprintf("c%d", i), netns: "/some/where", args: pod(fmt.Sprintf("web-%d", i), "u"), conf: c}.run(t)
			})
		}
		wg.Wait()
		return answers
	}
	seen := map[netip.Addr]int{}
	for i, a := range all("ADD") {
		if a.exit != 0 || len(a.IPs) != 2 {
			t.Fatalf("ADD %d: %s%s", i, a.stdout, a.stderr)
		}
		for _, addr := range a.addrs() {
			if other, taken := seen[addr]; taken {
				t.Errorf("%s went to %d and to %d", addr, other, i)
			}
			seen[addr] = i
		}
	}
	if attached, _ := read(t, dir); len(attached) != n {
		t.Errorf("%d attached, want %d", len(attached), n)
	}
	for i, a := range all("DEL") {
		if a.exit != 0 {
			t.Errorf("DEL %d: %s%s", i, a.stdout, a.stderr)
		}
	}
	if attached, _ := read(t, dir); len(attached) != 0 {
		t.Errorf("%d attached after DEL", len(attached))
	}
}
