package cni

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/cni/node"
	"github.com/limpet-io/limpet/internal/cni/outside"
	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// DefaultResultsDir is libcni's result cache.
const DefaultResultsDir = "/var/lib/cni/results"

// OtherResultsDirs returns the result caches of Multus and of cri-dockerd.
func OtherResultsDirs() []string {
	return []string{"/var/lib/cni/multus/results", "/var/lib/cni/cache/results"}
}

// Plugin is limpet-ipam without its process: these fields are all that it learns from the
// machine.
type Plugin struct {
	node.Node
	// Rebuilt opens the source of a state that was rebuilt.
	Rebuilt outside.Opener
	// HostLocal opens the source of a network that has files of host-local's.
	HostLocal outside.Opener
	// Rebuild makes a new, lost or damaged state; nil for an empty one.
	Rebuild func(*netconf.Config, *slog.Logger, persistence.Salvaged) (reservation.Records, error)
	// Forget drops what the node remembers of the link-layer addresses of these.
	Forget func([]netip.Addr) error
	// ForgetOwner drops what the node remembers of an earlier owner of these addresses.
	ForgetOwner func([]netip.Addr) error
	// UseOf asks the kernel whether it uses an address.
	UseOf func(netip.Addr) (ipam.Use, error)
	// Ask asks on an interface of the node who has some addresses, and returns the link-layer addresses of those who answer.
	Ask func(link string, addrs []netip.Addr) (map[netip.Addr]net.HardwareAddr, error)
	// Orphaned reports that the process that started this verb is gone, so that no runtime will
	// use what the verb allocates.
	Orphaned func() bool
	// Caller is the process ID of the interface plugin that started this verb; 0 when it is not known.
	Caller int
	// ClockErr says why the boot is not known; nil when it is. Then no verb can tell whether a predecessor lives, and
	// only those verbs run that need not.
	ClockErr error
	// Await waits, outside the lock, for what Wait says; nil for no wait.
	Await func(Wait)
	// Stdout takes the result and nothing else.
	Stdout io.Writer
	// Log takes what a person should know; a runtime shows it when a verb succeeds.
	Log *slog.Logger
	// LogFile takes one line of each verb, unless the configuration names another file; ""
	// for none.
	LogFile string

	slow   bool        // a look into a network namespace took long
	entry  logEntry    // of the verb that this copy of the plugin runs
	pod    netconf.Pod // what CNI_ARGS say, unless podErr says what is wrong with them
	podErr error
}

// store returns the state, which each verb locks and opens once. It calls waiting, unless
// that is nil, before a wait for the lock.
func (p *Plugin) store(c *netconf.Config, waiting func()) *persistence.Store {
	o := persistence.Options{Dir: c.DataDir, LockWait: c.LockWait, OnWait: waiting}
	if p.Rebuild != nil {
		o.Rebuild = func(left persistence.Salvaged) (reservation.Records, error) { return p.Rebuild(c, p.Log, left) }
	}
	return persistence.New(o)
}

// outside opens the sources that know something of the network. Mostly there is none.
func (p *Plugin) outside(tx *persistence.Tx, c *netconf.Config, now reservation.Moment) outside.Sources {
	verb := outside.Verb{
		Tx: tx, Conf: c, Now: now, Log: p.Log,
		End: func(a reservation.Attachment) error {
			_, err := p.end(tx, a, now, false)
			return err
		},
	}
	var open outside.Sources
	if tx == nil || tx.Recoveries() > 0 {
		open = append(open, p.Rebuilt(verb))
	}
	if s := p.HostLocal(verb); s != nil {
		open = append(open, s)
	}
	return open
}

// briefWait bounds how long a verb waits to store what only the agent reports.
const briefWait = 100 * time.Millisecond

// describing stores in passing what the network is like, where a state that was made again
// does not know. A DEL must not: some interface plugins make up the ranges of a DEL.
func describing(c *netconf.Config, fn func(*persistence.Tx) error) func(*persistence.Tx) error {
	return func(tx *persistence.Tx) error {
		if described(tx, c) {
			return fn(tx)
		}
		if err := describe(tx, c); err != nil {
			return err
		}
		if err := fn(tx); !errors.Is(err, persistence.ErrUnchanged) {
			return err
		}
		return nil
	}
}

// view is the transaction of a verb that only reads. The description of its network is
// written in another one.
func (p *Plugin) view(c *netconf.Config, fn func(*persistence.Tx) error) error {
	known := true
	err := p.store(c, nil).View(context.Background(), func(tx *persistence.Tx) error { //nolint:forbidigo // a verb has no caller's context; the lock's bound is its bound
		known = described(tx, c)
		return fn(tx)
	})
	if !known {
		_ = updateBriefly(c, func(tx *persistence.Tx) error { return describe(tx, c) }) // the next verb may do it as well
	}
	return err
}

func updateBriefly(c *netconf.Config, fn func(*persistence.Tx) error) error {
	return persistence.New(persistence.Options{Dir: c.DataDir, LockWait: briefWait, Existing: true}).Update(context.Background(), fn) //nolint:forbidigo // a verb has no caller's context; the lock's bound is its bound
}

// described reports whether the state knows what the network is like, or this verb does not
// know it either.
func described(tx *persistence.Tx, c *netconf.Config) bool {
	return len(c.Sets) == 0 || tx.Configured(c.Network)
}

// describe stores what verbs other than ADD, and the agent, need to know of the network.
func describe(tx *persistence.Tx, c *netconf.Config) error {
	if err := tx.SetConfig(c.Network, ipam.EncodeSets(c.Sets)); err != nil {
		return err
	}
	return tx.SetLimits(c.Network, c.Limits())
}

// printResult writes the result in the version of the configuration.
func (p *Plugin) printResult(conf *netconf.Config, dns types.DNS, to *reservation.Attachment) error {
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion, Routes: conf.Routes, DNS: dns}
	for n, a := range to.Addresses {
		subnet, gateway, err := conf.SubnetOf(n, a)
		if err != nil {
			return err
		}
		if to.Guest != 0 {
			if below, routes, is := conf.BelowBridge(subnet, gateway); is {
				gateway, result.Routes = below, routes
			}
		}
		result.IPs = append(result.IPs, &current.IPConfig{
			Address: net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(subnet.Bits(), a.BitLen())},
			Gateway: gateway.AsSlice(),
		})
	}
	versioned, err := result.GetAsVersion(conf.CNIVersion)
	if err != nil {
		return fmt.Errorf("convert result to version %s: %w", conf.CNIVersion, err)
	}
	return versioned.PrintTo(p.Stdout)
}
