package agent

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// announceFor is how long after its ADD a pod is announced, unless it answered before.
const announceFor = 30 * time.Second

// followShared makes addresses follow their pods where the nodes share an L2 segment. No route leads to a guest: each machine of the
// segment asks for it. While the network configuration says nothing, it is as before.
func (a *Agent) followShared() error {
	files, err := readConfigs(a.ConfDir)
	if err != nil {
		return err
	}
	conf, is := plan.FindShared(files)
	if !is {
		a.decided.Owns = a.follows.Ranges
		a.networkSettled.Store(true)
		return nil
	}
	segment, sets, err := a.Ranges(conf.Conf)
	if err != nil {
		a.cannotFollow = true
		return fmt.Errorf("addresses do not follow: %w", err)
	}
	d, err := plan.FollowShared(a.Node, a.cluster.allNodes(), conf.Network, sets)
	if a.cannotFollow = err != nil; err != nil {
		return err
	}
	a.decided, a.deaf = d, conf.Kind != "bridge"
	a.lending.serve(conf.Network)
	a.networkSettled.Store(true)
	return a.tellPlugin(conf.Network, segment)
}

// toAnnounce is what the agent announces on a segment.
type toAnnounce struct {
	unannounced []reservation.Attachment
	noted       map[reservation.AttachmentID]bool // what was, or is among unannounced
	// deaf tells that the node hears none of its pods, as with macvlan. There the kernel announces them.
	deaf bool
}

// noteNew notes the pods that follow and have got an address since the last round. What bridge lets the kernel of a pod announce for
// IPv4 is mostly lost, because the port of the pod is not up, and for IPv6 it announces nothing.
func (a *Agent) noteNew(networks []network) {
	if !a.Shared || a.deaf {
		return
	}
	had := a.noted
	a.noted = map[reservation.AttachmentID]bool{}
	for _, n := range networks {
		for _, at := range n.Attachments {
			if n.Name != a.lending.name() || at.Mode != reservation.Follow {
				continue
			}
			if a.noted[at.ID] = true; !had[at.ID] && a.announceable(at) {
				a.unannounced = append(a.unannounced, at)
			}
		}
	}
}

func (a *Agent) announceable(at reservation.Attachment) bool {
	return a.Now().Since(at.Since) < announceFor
}

// announceShared tells the machines of the segment where pods are that answer. The others have no interface yet.
func (a *Agent) announceShared() error {
	a.unannounced = slices.DeleteFunc(a.unannounced, func(at reservation.Attachment) bool { return !a.announceable(at) })
	var addrs []netip.Addr
	for _, at := range a.unannounced {
		addrs = append(addrs, at.Addresses...)
	}
	if len(addrs) == 0 {
		return nil
	}
	macs, err := a.Ask(a.follows.Bridge, addrs)
	for addr, mac := range macs {
		if failed := a.Announce(a.follows.Bridge, addr, mac); failed != nil {
			err = errors.Join(err, failed)
			delete(macs, addr)
		}
	}
	a.unannounced = slices.DeleteFunc(a.unannounced, func(at reservation.Attachment) bool {
		return !slices.ContainsFunc(at.Addresses, func(addr netip.Addr) bool { return macs[addr] == nil })
	})
	return err
}
