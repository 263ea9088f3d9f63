package plugin_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// TestOnePodOnSeveralNetworks attaches a pod as multus does: to two networks, and to one of
// them by two interfaces, all in the state of one node. Each comes back to its own addresses,
// and the end of one is not the end of another. Multus passes no annotations on, but cni-args.
func TestOnePodOnSeveralNetworks(t *testing.T) {
	dir := t.TempDir()
	ends := []struct{ network, ifName string }{{"net", "eth0"}, {"net", "net1"}, {"other", "eth0"}, {"other", "net1"}}
	run := func(verb, container string, end int, had []netip.Addr) answer {
		c := conf(dir, "1.1.0")
		c["name"] = ends[end].network
		delete(c, "runtimeConfig")
		c["args"] = map[string]any{"cni": map[string]any{"color": "red", reservation.RetainAnnotation: "10"}}
		if had != nil {
			withPrevious(c, had)
		}
		return kubelet(t, call{verb: verb, container: container, ifName: ends[end].ifName, args: pod("web-0", container), conf: c})
	}
	var had [][]netip.Addr
	for i := range ends {
		had = append(had, run("ADD", "life-0", i, nil).addrs())
	}
	if fmt.Sprint(had[0]) == fmt.Sprint(had[1]) || fmt.Sprint(had[0]) != fmt.Sprint(had[2]) { // a network has ranges of its own
		t.Fatalf("two interfaces on one network, then the same on another, have %v", had)
	}
	for life := range 3 {
		old, successor := fmt.Sprintf("life-%d", life), fmt.Sprintf("life-%d", life+1)
		for i := range ends { // one after the other, and in another order each time
			end := (i*3 + life) % len(ends)
			run("DEL", old, end, had[end])
			for j := range i { // these have ended before
				run("DEL", old, (j*3+life)%len(ends), nil)
			}
			for j := i + 1; j < len(ends); j++ { // these have not
				other := (j*3 + life) % len(ends)
				run("CHECK", old, other, had[other])
			}
		}
		for i := range ends {
			end := (i*3 + life + 1) % len(ends)
			if again := run("ADD", successor, end, nil).addrs(); fmt.Sprint(again) != fmt.Sprint(had[end]) {
				t.Errorf("life %d: %v came back to %v, had %v", life+1, ends[end], again, had[end])
			}
		}
	}
}
