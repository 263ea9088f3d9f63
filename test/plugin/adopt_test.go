package plugin_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestTogetherWithHostLocal lets the published host-local and limpet-ipam act on one pool
// at random, as they do while a node is switched over and back: no address has two
// holders, and each ends pods of both.
func TestTogetherWithHostLocal(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	plugins := map[string]string{"host-local": hostLocal(), "limpet-ipam": binary}
	names := slices.Sorted(maps.Keys(plugins))
	holds := map[string][]netip.Addr{}
	exhausted := 0
	for step := range 300 {
		which := names[r.IntN(2)]
		if len(holds) > 0 && r.IntN(100) < 45 {
			id := slices.Sorted(maps.Keys(holds))[r.IntN(len(holds))]
			c := call{plugin: plugins[which], verb: "DEL", container: id, netns: "/some/where", conf: withPrevious(shared(dir, which), holds[id])}
			if a := c.run(t); a.exit != 0 {
				t.Fatalf("seed %d, step %d: %s DEL: %s", seed, step, which, a.stdout)
			}
			delete(holds, id)
			continue
		}
		id := fmt.Sprintf("c%d", step)
		a := call{plugin: plugins[which], verb: "ADD", container: id, netns: "/some/where", conf: shared(dir, which)}.run(t)
		if a.exit != 0 {
			if !strings.Contains(a.Msg, "no IP addresses available") {
				t.Fatalf("seed %d, step %d: %s ADD: %s", seed, step, which, a.stdout)
			}
			if len(holds) < 13 {
				t.Errorf("seed %d, step %d: %s is exhausted by %d pods", seed, step, which, len(holds))
			}
			exhausted++
			continue
		}
		for other, addrs := range holds {
			if slices.ContainsFunc(a.addrs(), func(x netip.Addr) bool { return slices.Contains(addrs, x) }) {
				t.Fatalf("seed %d, step %d: %s gave %v to %s, which %s has", seed, step, which, a.addrs(), id, other)
			}
		}
		holds[id] = a.addrs()
	}
	t.Logf("%d pods hold addresses, %d times exhausted", len(holds), exhausted)
}

// shared is one network for both plugins.
func shared(dir, which string) map[string]any {
	return map[string]any{
		"cniVersion": "1.0.0", "name": "net", "type": "test",
		"ipam": map[string]any{"type": which, "dataDir": dir, "subnet": "10.1.2.0/28", "mirrorHostLocal": true},
	}
}

// hostLocal returns the path of the published plugin.
func hostLocal() string {
	dirs := filepath.SplitList(cniPath)
	return filepath.Join(dirs[len(dirs)-1], "host-local")
}
