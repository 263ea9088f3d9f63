package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/agent/show"
	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/pkg/reservation"
	"github.com/limpet-io/limpet/test/bench/bed"
	"github.com/limpet-io/limpet/test/bench/measure"
)

// offerInterval is the time between two looks of an agent at its state.
const offerInterval = 5 * time.Second

// startRate is how many agents start in a second. A DaemonSet starts them in steps, and the API server looks at all
// IPReservations for the list of each agent.
const startRate = 50

// agents are the loops of all nodes that write to the API server, each with a connection of its
// own. What they show are states in memory, in place of state files.
type agents struct {
	nodes []*agent
}

// agent is the loop of one node.
type agent struct {
	name string
	loop *show.Loop

	mu      sync.Mutex
	network plan.Network
	seq     uint64
}

// startAgents runs an agent for each node of a fleet.
func (b *bench) startAgents(ctx context.Context, f fleet) (*agents, error) {
	config, err := b.AccountConfig(bed.AgentAccount)
	if err != nil {
		return nil, err
	}
	all := &agents{}
	for i := range f.nodes {
		a, err := newAgent(f, i, config)
		if err != nil {
			return nil, err
		}
		all.nodes = append(all.nodes, a)
	}
	for _, i := range f.recordedPods() {
		all.attach(f, i, uid(ofPod, i))
	}
	for _, a := range all.nodes {
		go a.loop.Run(ctx)
		go a.offerOften(ctx)
		if err := measure.Wait(ctx, time.Second/startRate); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func newAgent(f fleet, i int, config *rest.Config) (*agent, error) {
	own := rest.CopyConfig(config)
	own.QPS = -1
	own.Dial = (&net.Dialer{}).DialContext // of its own, so that no connection is shared
	set, err := ipam.Set{{Subnet: netip.MustParsePrefix(nodeRange(i))}}.Complete()
	if err != nil {
		return nil, fmt.Errorf("make range of node %d: %w", i, err)
	}
	a := &agent{name: nodeName(i), network: plan.Network{Name: "net", Sets: []ipam.Set{set}}}
	for pod := i; pod < f.pods; pod += f.nodes {
		if !f.isSet(pod / perWorkload) { // pods that ask for nothing
			a.add(reservation.Owner{Network: "net", Namespace: "tenant", Pod: fmt.Sprint(pod), IfName: "eth0"}, "", f.address(pod), 0)
		}
	}
	a.loop, err = show.New(show.Config{Node: a.name, REST: own, Pace: show.DefaultPace(), Clock: clock.RealClock{}, Log: logr.Discard()})
	if err != nil {
		return nil, fmt.Errorf("make agent of node %d: %w", i, err)
	}
	return a, nil
}

// offerOften shows the state again and again, as an agent does that cannot know of each change.
func (a *agent) offerOften(ctx context.Context) {
	for {
		a.offer()
		if measure.Wait(ctx, offerInterval) != nil {
			return
		}
	}
}

func (a *agent) offer() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	a.loop.Offer(plan.Mirror(a.name, []plan.Network{a.network}, reservation.Moment{Wall: now, BootID: "boot", Up: now.Sub(begun)}))
}

// begun is the boot of all simulated nodes.
var begun = time.Now().Add(-time.Hour)

func (a *agent) add(owner reservation.Owner, id types.UID, address string, retain time.Duration) {
	a.seq++
	a.network.Attachments = append(a.network.Attachments, reservation.Attachment{
		ID:    reservation.AttachmentID{Network: "net", ContainerID: fmt.Sprint(a.seq), IfName: "eth0"},
		Owner: owner, UID: string(id), Addresses: []netip.Addr{netip.MustParseAddr(address)}, Retain: retain, AnnotationsSeen: true, Seq: a.seq,
	})
}

// ownerOf is the owner of the addresses of the i-th pod.
func (f fleet) ownerOf(i int) reservation.Owner {
	pod := f.pod(i)
	return reservation.Owner{Network: "net", Namespace: pod.GetNamespace(), Pod: pod.GetName(), IfName: "eth0"}
}

// attach is an ADD: the pod takes its reserved addresses.
func (all *agents) attach(f fleet, i int, id types.UID) {
	a, owner := all.nodes[i%f.nodes], f.ownerOf(i)
	a.mu.Lock()
	kept := a.network.Reservations[:0:0]
	for _, r := range a.network.Reservations {
		if r.Owner != owner {
			kept = append(kept, r)
		}
	}
	a.network.Reservations = kept
	a.add(owner, id, f.address(i), 10*time.Minute)
	a.mu.Unlock()
	a.offer()
}

// end is a DEL: the addresses of the pod are reserved.
func (all *agents) end(f fleet, i int) {
	a, owner := all.nodes[i%f.nodes], f.ownerOf(i)
	a.mu.Lock()
	kept := a.network.Attachments[:0:0]
	now := time.Now()
	for _, at := range a.network.Attachments {
		if at.Owner != owner {
			kept = append(kept, at)
			continue
		}
		a.network.Reservations = append(a.network.Reservations, reservation.Reservation{
			Owner: owner, UID: at.UID, ContainerID: at.ID.ContainerID, Addresses: at.Addresses, Retain: at.Retain, Seq: at.Seq,
			Deadline: reservation.Deadline{From: reservation.Moment{Wall: now, BootID: "boot", Up: now.Sub(begun)}, For: at.Retain},
		})
	}
	a.network.Attachments = kept
	a.mu.Unlock()
	a.offer()
}
