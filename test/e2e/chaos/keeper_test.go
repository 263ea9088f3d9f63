package chaos_test

import (
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/e2e/chaos"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// life returns a life of db-0.
func life(uid, node string, ips ...string) chaos.Pod {
	return chaos.Pod{Name: "db-0", UID: uid, Node: node, IPs: ips, Asks: true}
}

// roam tells that a pod is Ready whose addresses follow it.
func roam(k *chaos.Keeper, uid string, seconds int, node, ip string) {
	k.Ready(chaos.Pod{Name: "roam-0", UID: uid, Node: node, IPs: []string{ip}, Asks: true, Follows: true}, at(seconds))
}

// TestKeeper tells stories to a keeper. Each begins with db-0 on n1 with address a, Ready at 0.
func TestKeeper(t *testing.T) {
	db := life("1", "n1", "a")
	tests := map[string]struct {
		tell                      func(k *chaos.Keeper)
		rebuilt, kept, freeToMove int
		want                      string // a part of the only violation; none where empty
	}{
		"a pod comes back": {
			tell: func(k *chaos.Keeper) {
				k.Gone("db-0", "1", at(10))
				k.Ready(life("2", "n1", "a"), at(12))
			},
			rebuilt: 1, kept: 1,
		},
		"a pod that is Ready still is no rebuild": {
			tell: func(k *chaos.Keeper) { k.Ready(db, at(10)) },
		},
		"a pod moves without a reason": {
			tell: func(k *chaos.Keeper) {
				k.Gone("db-0", "1", at(10))
				k.Ready(life("2", "n2", "b"), at(12))
			},
			rebuilt: 1, want: "db-0 was on n1",
		},
		"a pod comes back with another address": {
			tell: func(k *chaos.Keeper) {
				k.Gone("db-0", "1", at(10))
				k.Ready(life("2", "n1", "b"), at(12))
			},
			rebuilt: 1, want: "db-0 was on n1 with [a]",
		},
		"a pod moves whose life was not seen for long": {
			tell: func(k *chaos.Keeper) {
				k.Gone("db-0", "1", at(2))
				k.Ready(life("2", "n2", "b"), at(4))
			},
			rebuilt: 1, freeToMove: 1,
		},
		"a pod moves from a node that is disturbed": {
			tell: func(k *chaos.Keeper) {
				k.Disturb("n1", at(5))
				k.Gone("db-0", "1", at(10))
				k.Ready(life("2", "n2", "b"), at(12))
			},
			rebuilt: 1, freeToMove: 1,
		},
		"a pod moves from a node that was disturbed before": {
			tell: func(k *chaos.Keeper) {
				k.Disturb("n1", at(5))
				k.Settle("n1", at(8))
				k.Gone("db-0", "1", at(10))
				k.Ready(life("2", "n2", "b"), at(12))
			},
			rebuilt: 1, want: "db-0 was on n1",
		},
		"a pod moves while another node is disturbed": {
			tell: func(k *chaos.Keeper) {
				k.Disturb("n2", at(5))
				k.Gone("db-0", "1", at(10))
				k.Ready(life("2", "n3", "b"), at(12))
			},
			rebuilt: 1, want: "db-0 was on n1",
		},
		"a required pod moves from a node that is disturbed": {
			tell: func(k *chaos.Keeper) {
				k.Disturb("n1", at(5))
				k.Gone("db-0", "1", at(10))
				after := life("2", "n2", "b")
				after.Required = true
				k.Ready(after, at(12))
			},
			rebuilt: 1, want: "db-0 was on n1",
		},
		"another pod gets an address that is held": {
			tell: func(k *chaos.Keeper) {
				k.Gone("db-0", "1", at(10))
				k.Ready(chaos.Pod{Name: "web-x", UID: "9", Node: "n1", IPs: []string{"a"}}, at(12))
			},
			want: "web-x has a, which node n1 holds for db-0",
		},
		"an address stays held on the node that a pod left": {
			tell: func(k *chaos.Keeper) {
				k.Disturb("n1", at(5))
				k.Gone("db-0", "1", at(10))
				k.Ready(life("2", "n2", "b"), at(12))
				k.Settle("n1", at(20))
				k.Ready(chaos.Pod{Name: "web-x", UID: "9", Node: "n1", IPs: []string{"a"}}, at(30))
			},
			rebuilt: 1, freeToMove: 1, want: "web-x has a",
		},
		"another pod gets an address after the state was lost": {
			tell: func(k *chaos.Keeper) {
				k.Gone("db-0", "1", at(10))
				k.Forget("n1", false)
				k.Ready(chaos.Pod{Name: "web-x", UID: "9", Node: "n1", IPs: []string{"a"}}, at(12))
			},
		},
		"a lost state does not free the address of a pod that runs": {
			tell: func(k *chaos.Keeper) {
				k.Forget("n1", false)
				k.Ready(chaos.Pod{Name: "web-x", UID: "9", Node: "n1", IPs: []string{"a"}}, at(12))
			},
			want: "web-x has a",
		},
		"the address of a pod changes while it lives": {
			tell: func(k *chaos.Keeper) { k.Ready(life("1", "n1", "b"), at(12)) },
			want: "db-0 lives still on node n1",
		},
		"a lost state changes the address of a pod": {
			tell: func(k *chaos.Keeper) {
				k.Disturb("n1", at(5))
				k.Forget("n1", true)
				k.Settle("n1", at(20))
				k.Ready(life("1", "n1", "b"), at(22))
				k.Ready(chaos.Pod{Name: "web-x", UID: "9", Node: "n1", IPs: []string{"a"}}, at(23))
			},
		},
		"a later change is not of the lost state": {
			tell: func(k *chaos.Keeper) {
				k.Disturb("n1", at(5))
				k.Forget("n1", true)
				k.Settle("n1", at(20))
				k.Ready(db, at(22))
				k.Ready(life("1", "n1", "b"), at(30))
			},
			want: "db-0 lives still on node n1",
		},
		"the address of a pod follows it": {
			tell: func(k *chaos.Keeper) {
				roam(k, "1", 0, "n1", "c")
				k.Gone("roam-0", "1", at(10))
				roam(k, "2", 12, "n2", "c")
			},
			rebuilt: 1, kept: 1,
		},
		"the address of a pod does not follow it from a node that is drained": {
			tell: func(k *chaos.Keeper) {
				roam(k, "1", 0, "n1", "c")
				k.Disturb("n1", at(5))
				k.Gone("roam-0", "1", at(10))
				roam(k, "2", 12, "n2", "d")
			},
			rebuilt: 1, want: "roam-0 was on n1",
		},
		"the address of a pod does not follow it from a node whose state was lost": {
			tell: func(k *chaos.Keeper) {
				roam(k, "1", 0, "n1", "c")
				k.Disturb("n1", at(5))
				k.Forget("n1", true)
				k.Gone("roam-0", "1", at(10))
				roam(k, "2", 12, "n2", "d")
			},
			rebuilt: 1, freeToMove: 1,
		},
		"nothing is held for a pod that does not ask": {
			tell: func(k *chaos.Keeper) {
				k.Ready(chaos.Pod{Name: "web-x", UID: "9", Node: "n1", IPs: []string{"c"}}, at(12))
				k.Gone("web-x", "9", at(20))
				k.Ready(chaos.Pod{Name: "web-y", UID: "10", Node: "n1", IPs: []string{"c"}}, at(22))
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			k := chaos.NewKeeper()
			k.Ready(db, at(0))
			test.tell(k)
			if k.Rebuilt != test.rebuilt || k.Kept != test.kept || k.FreeToMove != test.freeToMove {
				t.Errorf("%d rebuilt, %d kept, %d free to move", k.Rebuilt, k.Kept, k.FreeToMove)
			}
			found := strings.Join(k.Violations, "\n")
			if (test.want == "") != (found == "") || !strings.Contains(found, test.want) {
				t.Errorf("violations: %q, want %q", found, test.want)
			}
		})
	}
}
