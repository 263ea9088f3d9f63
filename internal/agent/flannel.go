package agent

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/persistence"
)

// followFlannel makes addresses follow their pods where flannel is the pod network of the node.
func (a *Agent) followFlannel(ctx context.Context) error {
	conf, is, err := a.findFlannel()
	if err != nil || !is {
		return err
	}
	env, err := os.ReadFile(a.SubnetEnv)
	if err != nil {
		return fmt.Errorf("read what flannel says of this node: %w", err)
	}
	network, subnet, err := plan.FlannelSubnets(env)
	if a.cannotFollow = err != nil; err != nil {
		return fmt.Errorf("read %s: %w", a.SubnetEnv, err)
	}
	a.lending.kernel.Lock()
	defer a.lending.kernel.Unlock()
	in := plan.OwnNetworkInput{
		Node: a.Node, Network: conf.Network, Nodes: a.cluster.allNodes(), PodNetworks: []netip.Prefix{network},
		Services: append(a.cluster.serviceRanges(), apiServer(a.REST.Host)),
	}
	var hops []plan.Route
	if in.Have, hops, err = hopsOf(a.cluster.links); err != nil {
		return err
	}
	untold := a.lending.addLoans(ctx, &in)
	bridge, err := linkIndex(a.cluster.links, conf.Bridge)
	if err != nil {
		return err
	}
	d, err := plan.FollowFlannel(in, subnet, hops, bridge)
	if a.cannotFollow = err != nil && !errors.Is(err, plan.ErrNotRegistered); err != nil {
		return err
	}
	a.lending.serve(conf.Network)
	a.decided, a.bridge = d, bridge
	a.networkSettled.Store(true)
	err = errors.Join(untold, a.makeRoutes(in.Have, d), answerFor(a.cluster.links, bridge, d.Proxies), a.announce(bridge, d.Proxies))
	if len(d.Guests) > 0 || !a.unruled { // again: another program may have removed them
		err = errors.Join(err, applyGuestRules(a.cluster.filter, d.Guests, network))
		a.unruled = err == nil && len(d.Guests) == 0
	}
	return errors.Join(err, a.tellPlugin(conf.Network, conf.Bridge))
}

// findFlannel returns what the network configuration says of flannel. While it says nothing, as between two of flannel's, the
// network is that of before: its guests stay.
func (a *Agent) findFlannel() (conf plan.FlannelConf, is bool, err error) {
	files, err := readConfigs(a.ConfDir)
	if err != nil {
		return conf, false, err
	}
	if conf, is = plan.FindFlannel(files); !is && a.follows.Network != "" {
		conf, is = plan.FlannelConf{Network: a.follows.Network, Bridge: cmp.Or(a.follows.Bridge, plan.FlannelBridge)}, true
	}
	return conf, is, nil
}

// tellPlugin records for the plugin in which network addresses follow, once all loans of the node's ranges are in the state. A
// record that was removed or put back is written again.
func (a *Agent) tellPlugin(network, link string) error {
	f := persistence.Follows{Network: network, Bridge: link, Node: a.Node, Ranges: a.decided.Owns}
	if !a.lending.knows(f.Ranges) {
		return nil
	}
	if err := writeRecord(filepath.Join(a.StateDir, persistence.FollowsFile), f); err != nil || reflect.DeepEqual(f, a.follows) {
		return err
	}
	a.Log.Info("Addresses follow their pods", "network", f.Network, "ranges", f.Ranges)
	a.follows = f
	return nil
}

// mayInstall reports whether the plugin may be installed on a node that has none: not before the loans of its ranges are read
// where flannel or a segment has just begun, because another node may have an address of them, as a guest. Flannel may have
// told the API server a moment before that addresses can follow.
func (a *Agent) mayInstall() bool {
	if !a.tellsPlugin() || a.follows.Network != "" || a.cannotFollow && a.Clock.Since(a.started) >= untold {
		return true
	}
	files, err := readConfigs(a.ConfDir)
	_, is := plan.FindFlannel(files)
	_, shares := plan.FindShared(files)
	return err == nil && len(files) > 0 && !is && !shares
}

// wantsBridge reports whether a guest has come before the bridge.
func (a *Agent) wantsBridge() bool { return len(a.decided.Guests) > 0 && a.bridge == 0 }

// hopsOf returns the routes of the agent, and those of others to subnets, as flannel makes.
func hopsOf(h *netlink.Handle) (own, hops []plan.Route, err error) {
	all, err := h.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, nil, fmt.Errorf("list routes: %w", err)
	}
	for _, r := range all {
		if r.Dst == nil {
			continue
		}
		to := fromNetlink(r)
		to.Link, to.Onlink = r.LinkIndex, r.Flags&unix.RTNH_F_ONLINK != 0
		if r.Protocol == routeProtocol {
			own = append(own, to)
		} else if to.Via.IsValid() {
			hops = append(hops, to)
		}
	}
	return own, hops, nil
}

// linkIndex returns the number of an interface; 0 while there is none.
func linkIndex(h *netlink.Handle, name string) (int, error) {
	link, err := h.LinkByName(name)
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look for bridge %s: %w", name, err)
	}
	return link.Attrs().Index, nil
}

// answerFor lets the node answer on its bridge for addresses that it reaches elsewhere. An entry that is no longer needed stays:
// the kernel answers for no address that is on the bridge.
func answerFor(h *netlink.Handle, bridge int, addrs []netip.Addr) error {
	if bridge == 0 {
		return nil
	}
	for _, a := range addrs {
		n := netlink.Neigh{LinkIndex: bridge, Family: netlink.FAMILY_V4, Flags: netlink.NTF_PROXY, State: netlink.NUD_PERMANENT, IP: a.AsSlice()}
		if err := h.NeighSet(&n); err != nil {
			return fmt.Errorf("answer for %s on the bridge: %w", a, err)
		}
	}
	return nil
}

// announce tells the pods on the bridge for which addresses the node begins to answer: a pod that knew the interface of the earlier
// pod would send packets to that for half a minute or more. An agent that starts tells all again.
func (a *Agent) announce(bridge int, addrs []netip.Addr) error {
	fresh := slices.DeleteFunc(slices.Clone(addrs), func(addr netip.Addr) bool { return slices.Contains(a.announced, addr) })
	if bridge == 0 || a.cluster.packets < 0 {
		return nil
	}
	link, err := a.cluster.links.LinkByIndex(bridge)
	if err != nil {
		return fmt.Errorf("look for the bridge: %w", err)
	}
	own, all := link.Attrs().HardwareAddr, net.HardwareAddr{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	to := &unix.SockaddrLinklayer{Protocol: arp, Ifindex: bridge, Halen: uint8(len(all))}
	copy(to.Addr[:], all)
	var errs []error
	for _, addr := range fresh {
		request := slices.Concat([]byte{0, 1, 8, 0, 6, 4, 0, 1}, own, addr.AsSlice(), all, addr.AsSlice())
		errs = append(errs, unix.Sendto(a.cluster.packets, request, 0, to))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("announce what is lent on the bridge: %w", err)
	}
	a.announced = addrs
	return nil
}

// arp is the number of the protocol, in the order of the network.
var arp = binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, unix.ETH_P_ARP))
