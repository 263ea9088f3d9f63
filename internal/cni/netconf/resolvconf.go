package netconf

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
)

// ParseResolvConf reads the DNS part of the result from the content of a file in the format
// of resolv.conf(5).
func ParseResolvConf(path string, data []byte) (types.DNS, error) {
	var dns types.DNS
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) < 2 {
			continue
		}
		switch words[0] { // a comment begins with no keyword
		case "nameserver":
			dns.Nameservers = append(dns.Nameservers, words[1])
		case "domain":
			dns.Domain = words[1]
		case "search":
			dns.Search = append(dns.Search, words[1:]...)
		case "options":
			dns.Options = append(dns.Options, words[1:]...)
		}
	}
	if err := lines.Err(); err != nil {
		return dns, fmt.Errorf("ipam.resolvConf: %s: %w: %w", path, err, ErrConfig)
	}
	return dns, nil
}
