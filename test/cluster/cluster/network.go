package cluster

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const netnsDir = "/run/netns"

// makeNetwork makes a network namespace for the control plane with a bridge in it,
// and one for each node with a cable to that bridge. The machine's own namespace
// gets no interface and no route.
func makeNetwork(c Config) error {
	if err := makeNetNS(controlNetNS(c.Name)); err != nil {
		return err
	}
	err := withLinks(controlNetNS(c.Name), func(h *netlink.Handle) error {
		bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
		if err := h.LinkAdd(bridge); err != nil {
			return fmt.Errorf("add bridge: %w", err)
		}
		return dress(c, h, "br0", controlIP4, controlIP6)
	})
	if err != nil {
		return fmt.Errorf("control plane network: %w", err)
	}
	for i := 1; i <= c.Nodes; i++ {
		if err := plugNode(c, i); err != nil {
			return fmt.Errorf("network of %s: %w", nodeName(i), err)
		}
	}
	return nil
}

func plugNode(c Config, i int) error {
	name := nodeNetNS(c.Name, nodeName(i))
	if err := makeNetNS(name); err != nil {
		return err
	}
	ns, err := netns.GetFromName(name)
	if err != nil {
		return err
	}
	defer ns.Close()
	err = withLinks(controlNetNS(c.Name), func(h *netlink.Handle) error {
		bridge, err := h.LinkByName("br0")
		if err != nil {
			return err
		}
		cable := &netlink.Veth{
			LinkAttrs: netlink.LinkAttrs{Name: nodeName(i), MasterIndex: bridge.Attrs().Index, Flags: net.FlagUp},
			PeerName:  "eth0", PeerNamespace: netlink.NsFd(ns),
		}
		if err := h.LinkAdd(cable); err != nil {
			return fmt.Errorf("add cable: %w", err)
		}
		return h.LinkSetUp(cable)
	})
	if err != nil {
		return err
	}
	err = withLinks(name, func(h *netlink.Handle) error {
		if err := dress(c, h, "eth0", nodeIP4(i), nodeIP6(i)); err != nil {
			return err
		}
		for gw := range strings.SplitSeq(c.families(controlIP4, controlIP6), ",") {
			if err := h.RouteAdd(&netlink.Route{Gw: net.ParseIP(gw)}); err != nil {
				return fmt.Errorf("add default route: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return inNamespace(name, func() error {
		for path := range strings.SplitSeq(c.families("/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv6/conf/all/forwarding"), ",") {
			if err := os.WriteFile(path, []byte("1"), 0o644); err != nil {
				return fmt.Errorf("let %s forward: %w", nodeName(i), err)
			}
		}
		return nil
	})
}

// dress gives an interface its addresses and brings it up, and the loopback too.
func dress(c Config, h *netlink.Handle, name, ip4, ip6 string) error {
	for _, up := range []string{"lo", name} {
		link, err := h.LinkByName(up)
		if err != nil {
			return fmt.Errorf("find %s: %w", up, err)
		}
		if err := h.LinkSetUp(link); err != nil {
			return fmt.Errorf("bring %s up: %w", up, err)
		}
		if up == "lo" {
			continue
		}
		addrs := []*netlink.Addr{{IPNet: &net.IPNet{IP: net.ParseIP(ip4), Mask: net.CIDRMask(24, 32)}}}
		if !c.IPv4Only {
			addrs = append(addrs, &netlink.Addr{IPNet: &net.IPNet{IP: net.ParseIP(ip6), Mask: net.CIDRMask(64, 128)}, Flags: unix.IFA_F_NODAD}) // no other host is here
		}
		for _, a := range addrs {
			if err := h.AddrAdd(link, a); err != nil {
				return fmt.Errorf("add %s: %w", a.IP, err)
			}
		}
	}
	return nil
}

// routePods lets the control plane reach pods, for webhooks and the like.
func routePods(c Config, i int, cidrs []string) error {
	return withLinks(controlNetNS(c.Name), func(h *netlink.Handle) error {
		for _, text := range cidrs {
			_, dst, err := net.ParseCIDR(text)
			if err != nil {
				return fmt.Errorf("parse pod CIDR: %w", err)
			}
			via := nodeIP4(i)
			if dst.IP.To4() == nil {
				via = nodeIP6(i)
			}
			if err := h.RouteReplace(&netlink.Route{Dst: dst, Gw: net.ParseIP(via)}); err != nil {
				return fmt.Errorf("route %s to %s: %w", dst, nodeName(i), err)
			}
		}
		return nil
	})
}

func withLinks(name string, fn func(*netlink.Handle) error) error {
	ns, err := netns.GetFromName(name)
	if err != nil {
		return fmt.Errorf("open network namespace %s: %w", name, err)
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		return fmt.Errorf("talk to network namespace %s: %w", name, err)
	}
	defer h.Close()
	return fn(h)
}

// makeNetNS makes a named network namespace. It does so on a thread of its own,
// which the namespace stays behind on.
func makeNetNS(name string) error {
	return inFreshThread(func() error {
		ns, err := netns.NewNamed(name)
		if err != nil {
			return fmt.Errorf("make network namespace %s: %w", name, err)
		}
		return ns.Close()
	})
}

// removeNetNS removes a named network namespace. The name of one whose maker was
// killed may be a plain file, with nothing mounted on it yet.
//
// The first `ip netns add` on a machine mounts the directory
// over itself, with a copy of every namespace in it, and the one below can then be
// reached by no path. So the mounts are taken away in a mount namespace that lasts
// for this call only; there the name can be removed, and the kernel then detaches
// what is mounted on it everywhere else.
func removeNetNS(name string) error {
	path := filepath.Join(netnsDir, name)
	return inFreshThread(func() error {
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("remove network namespace %s: %w", name, err)
		}
		if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("remove network namespace %s: %w", name, err)
		}
		for _, dir := range []string{path, netnsDir, path} {
			for unix.Unmount(dir, unix.MNT_DETACH) == nil { // until nothing is mounted there
			}
		}
		return forget(path)
	})
}
