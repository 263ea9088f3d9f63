package differential_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
)

// object is a JSON object.
type object = map[string]any

// network is a network configuration in order, drawn at random.
type network struct {
	r       *rand.Rand
	version string
	sets    [][]object // the ranges
	old     bool       // the first set is one range and in the old keys
	more    object     // of ipam
}

func drawNetwork(t *testing.T, r *rand.Rand) *network {
	n := &network{r: r, version: versions[r.IntN(len(versions))], more: object{}}
	if r.IntN(2) == 0 {
		n.version = "1.1.0" // has every verb
	}
	for i := range 1 + r.IntN(3) {
		v6 := r.IntN(3) == 0
		if n.version < "0.3.0" { // one address of each family at most
			if i > 1 {
				break
			}
			v6 = i == 1
		}
		n.sets = append(n.sets, n.drawSet(i, v6))
	}
	n.old = len(n.sets[0]) == 1 && r.IntN(3) == 0
	if r.IntN(3) == 0 {
		n.more["routes"] = []object{{"dst": "0.0.0.0/0"}, {"dst": "192.0.2.0/24", "gw": "10.0.0.9"}, {"dst": "fd00::/8", "mtu": 1400}}[:r.IntN(4)]
	}
	if r.IntN(4) == 0 {
		path := filepath.Join(t.TempDir(), "resolv.conf")
		lines := []string{"nameserver 192.0.2.1\n", "search a b\n", "options ndots:5\n", "domain d\n", "# x\n", "garbage\n"}
		var text string
		for range r.IntN(5) {
			text += lines[r.IntN(len(lines))]
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		n.more["resolvConf"] = path
	}
	return n
}

// drawSet draws a range set with subnets of its own, most of them small enough to be
// used up.
func (n *network) drawSet(i int, v6 bool) []object {
	var set []object
	for j := range 1 + n.r.IntN(3)/2*n.r.IntN(3) {
		subnet := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), byte(j), 0}), []int{24, 28, 29, 30}[n.r.IntN(4)])
		if v6 {
			subnet = netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfd, 0, byte(i), byte(j)}), []int{64, 112, 125, 126}[n.r.IntN(4)])
		}
		set = append(set, n.drawRange(subnet))
	}
	return set
}

func (n *network) drawRange(subnet netip.Prefix) object {
	r := object{"subnet": subnet.String()}
	start := n.r.IntN(3)
	if n.r.IntN(3) == 0 {
		r["rangeStart"] = nth(subnet, start)
	}
	if n.r.IntN(3) == 0 {
		end := 3
		if host := subnet.Addr().BitLen() - subnet.Bits(); host > 2 {
			end += n.r.IntN(1<<min(host, 4) - 3)
		}
		r["rangeEnd"] = nth(subnet, end)
	}
	switch n.r.IntN(5) {
	case 0:
		r["gateway"] = nth(subnet, n.r.IntN(4))
	case 1:
		r["gateway"] = "10.99.0.1"
	}
	return r
}

func nth(p netip.Prefix, n int) string {
	a := p.Addr()
	for range n {
		a = a.Next()
	}
	return a.String()
}

// conf returns the configuration as text after an edit.
func (n *network) conf(edit func(conf, ipam object)) string {
	ipam := object{"type": "host-local", "dataDir": "$DIR"}
	maps.Copy(ipam, n.more)
	sets := n.sets
	if n.old {
		maps.Copy(ipam, sets[0][0])
		sets = sets[1:]
	}
	if len(sets) > 0 {
		ipam["ranges"] = sets
	}
	conf := object{"cniVersion": n.version, "name": "net", "type": "x", "ipam": ipam}
	if edit != nil {
		edit(conf, ipam)
	}
	text, err := json.Marshal(conf)
	if err != nil {
		panic(fmt.Sprint("encode a drawn configuration: ", err))
	}
	return string(text)
}

// drawAddress draws an address to ask for: mostly one of a range.
func (n *network) drawAddress() string {
	set := n.sets[n.r.IntN(len(n.sets))]
	subnet := netip.MustParsePrefix(set[n.r.IntN(len(set))]["subnet"].(string))
	a := nth(subnet, n.r.IntN(9))
	switch n.r.IntN(8) {
	case 0:
		return "10.200.0.1"
	case 1:
		return a + "/24"
	}
	return a
}
