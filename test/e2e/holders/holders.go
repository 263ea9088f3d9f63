// Package holders finds out inside a node which sandboxes have which addresses. The API does
// not know: a force-deleted pod is gone from the API while its sandbox still runs.
package holders

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Look is for the shell of a node. It prints, for one sandbox after the other, the network namespace and the kernel's
// table of addresses.
const Look = `
for ns in /run/netns/cni-*; do
  echo "netns $ns"
  nsenter --net="$ns" cat /proc/net/fib_trie /proc/net/if_inet6 2>/dev/null
done`

// Script is a loop of Look. It ends when the file that the first argument names exists.
const Script = `until [ -e "$0" ]; do` + Look + `
done`

// Sighting holds the addresses of a network namespace at one moment.
type Sighting struct {
	NetNS string
	Addrs []netip.Addr
}

// Parse parses the output of Look and of Script.
func Parse(out string) []Sighting {
	var seen []Sighting
	var last netip.Addr
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 2 && fields[0] == "netns":
			seen = append(seen, Sighting{NetNS: fields[1]})
			continue
		case len(seen) == 0 || len(fields) < 2:
			continue
		case fields[0] == "|--":
			last, _ = netip.ParseAddr(fields[1]) // a node of the trie; the next line says whether it is an address of this host
			continue
		case strings.Join(fields, " ") == "/32 host LOCAL":
			seen[len(seen)-1].add(last)
		case len(fields) == 6 && len(fields[0]) == 32:
			seen[len(seen)-1].add(parseHex(fields[0]))
		}
	}
	return seen
}

// parseHex parses an address of if_inet6, 32 hexadecimal digits.
func parseHex(digits string) netip.Addr {
	var groups []string
	for group := range slices.Chunk([]byte(digits), 4) {
		groups = append(groups, string(group))
	}
	addr, _ := netip.ParseAddr(strings.Join(groups, ":"))
	return addr
}

func (s *Sighting) add(addr netip.Addr) {
	if addr.IsGlobalUnicast() && !slices.Contains(s.Addrs, addr) {
		s.Addrs = append(s.Addrs, addr)
	}
}

// Twice returns one line for each address that two sandboxes had at the same time. Sandboxes
// are read one after the other, so an address that is handed on shows up in both. Two
// sandboxes certainly had the address when the first one shows it again after the second.
func Twice(seen []Sighting) []string {
	holders := map[netip.Addr][]string{} // in the order of their first sighting
	var found []string
	for _, s := range seen {
		for _, addr := range s.Addrs {
			earlier := holders[addr]
			i := slices.Index(earlier, s.NetNS)
			if i < 0 {
				holders[addr] = append(earlier, s.NetNS)
				continue
			}
			for _, later := range earlier[i+1:] {
				said := fmt.Sprintf("%s is in %s and in %s", addr, s.NetNS, later)
				if !slices.Contains(found, said) {
					found = append(found, said)
				}
			}
		}
	}
	return found
}
