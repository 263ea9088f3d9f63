package cni

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/cni/netconf"
)

// maxResolvConf is far more than such a file has.
const maxResolvConf = 1 << 20

// readResolvConf reads the DNS part of the result.
func readResolvConf(path string) (types.DNS, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe would wait for a writer
	if err != nil {
		return types.DNS{}, fmt.Errorf("ipam.resolvConf: %w: %w", err, netconf.ErrConfig)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxResolvConf))
	if err := errors.Join(err, f.Close()); err != nil {
		return types.DNS{}, fmt.Errorf("ipam.resolvConf: %w: %w", err, netconf.ErrConfig)
	}
	return parseResolvConf(path, data)
}

// parseResolvConf reads the DNS part of the result from the content of a file in the format
// of resolv.conf(5).
func parseResolvConf(path string, data []byte) (types.DNS, error) {
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
		return dns, fmt.Errorf("ipam.resolvConf: %s: %w: %w", path, err, netconf.ErrConfig)
	}
	return dns, nil
}
