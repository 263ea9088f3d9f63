package cni

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/limpet-io/limpet/internal/ipam"
)

// FuzzResult encodes results as the CNI library prints them, in every version.
func FuzzResult(f *testing.F) {
	f.Add("10.1.0.2/24", "10.1.0.1", "0.0.0.0/0", "", 0, "")
	f.Add("fd00::2/64", "fd00::1", "fd00::/8", "fd00::9", 0, "")
	f.Add("10.1.0.2/24", "", "", "", 0, "")
	f.Add("10.1.0.2/24", "fd00::1", "10.1.2.3/8", "10.0.0.1", 1400, "")
	f.Add("::ffff:10.1.0.2/120", "::ffff:10.1.0.1", "::ffff:0.0.0.0/96", "::ffff:10.1.0.1", 0, "")
	f.Add("", "10.1.0.1", "0.0.0.0/0", "", 0, "")
	f.Add("10.1.0.2/24", "10.1.0.1", "", "", 0, "example.com")
	f.Fuzz(func(t *testing.T, address, gateway, dst, gw string, mtu int, domain string) {
		for n := range 3 {
			r := &current.Result{CNIVersion: current.ImplementedSpecVersion, DNS: types.DNS{Domain: domain}}
			for range n {
				ip := &current.IPConfig{Gateway: net.ParseIP(gateway)}
				if subnet, err := types.ParseCIDR(address); err == nil {
					ip.Address = *subnet
				}
				r.IPs = append(r.IPs, ip)
				if subnet, err := types.ParseCIDR(dst); err == nil {
					r.Routes = append(r.Routes, &types.Route{Dst: *subnet, GW: net.ParseIP(gw), MTU: mtu})
				}
			}
			sameResult(t, r)
		}
	})
}

func sameResult(t *testing.T, r *current.Result) {
	t.Helper()
	for _, v := range append(version.All.SupportedVersions(), "2.0.0", "") {
		got := encodeResult(r, v)
		var want bytes.Buffer
		versioned, err := r.GetAsVersion(v)
		if err == nil {
			err = versioned.PrintTo(&want)
		}
		if got != nil && (err != nil || !bytes.Equal(got, want.Bytes())) {
			t.Errorf("version %q:\n%s\nand the library, %v:\n%s", v, got, err, want.Bytes())
		}
	}
}

// TestAnEverydayResultNeedsNoLibrary encodes a result of each version from 0.3.0 on.
func TestAnEverydayResultNeedsNoLibrary(t *testing.T) {
	r := &current.Result{IPs: []*current.IPConfig{{Address: net.IPNet{IP: net.IPv4(10, 1, 0, 2), Mask: net.CIDRMask(24, 32)}, Gateway: net.IPv4(10, 1, 0, 1)}}}
	for _, v := range []string{"0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		if encodeResult(r, v) == nil {
			t.Errorf("version %s needs the library", v)
		}
	}
}

// FuzzLogEntry encodes the lines of the log as encoding/json does.
func FuzzLogEntry(f *testing.F) {
	f.Add("net", "ns/pod", "eth0", "", uint(0), int64(1234567))
	f.Add("net", "", "<&>", "a reason", uint(11), int64(0))
	f.Add("", "é", "\x00\"\\", "\u2028\xff", uint(999), int64(1e15))
	f.Fuzz(func(t *testing.T, network, pod, ifName, reason string, code uint, took int64) {
		l := logEntry{
			Time: time.Date(2026, 1, 2, 3, 4, 5, 60_000_000, time.UTC), Verb: "ADD", Outcome: outcomeNew, Network: network, Pod: pod, Container: "c", IfName: ifName,
			Reason: reason, Code: code,
		}
		l.end(nil, nil, time.Duration(max(took, 0)))
		for range 3 {
			var want bytes.Buffer
			e := json.NewEncoder(&want)
			e.SetEscapeHTML(false)
			if err := e.Encode(l); err != nil {
				t.Fatal(err)
			}
			if got := l.encode(); !bytes.Equal(got, want.Bytes()) {
				t.Errorf("%s, and encoding/json: %s", got, want.Bytes())
			}
			l.Addresses = append(l.Addresses, netip.MustParseAddr(fmt.Sprintf("10.0.0.%d", len(l.Addresses))))
		}
	})
}

// TestRangesAreStoredAsJSON encodes range sets as encoding/json does, since the agent decodes them.
func TestRangesAreStoredAsJSON(t *testing.T) {
	sets, err := ipam.CompleteSets([]ipam.Set{
		{{Subnet: netip.MustParsePrefix("10.1.0.0/24"), Gateway: netip.MustParseAddr("fd00::1")}, {Subnet: netip.MustParsePrefix("10.2.0.0/24")}},
		{{Subnet: netip.MustParsePrefix("fd00::/64")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := range sets {
		want, err := json.Marshal(sets[:n+1])
		if got := ipam.EncodeSets(sets[:n+1]); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s, and encoding/json: %s, %v", got, want, err)
		}
	}
}
