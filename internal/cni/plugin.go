package cni

import (
	"io"
	"log/slog"
	"net/netip"

	"github.com/limpet-io/limpet/internal/cni/netconf"
	"github.com/limpet-io/limpet/internal/cni/node"
	"github.com/limpet-io/limpet/internal/cni/outside"
	"github.com/limpet-io/limpet/pkg/ipam"
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
	// Sources are asked for addresses that are not in the state.
	Sources []outside.Opener
	// Rebuild makes a new, lost or damaged state; nil for an empty one.
	Rebuild func(*netconf.Config, *slog.Logger, persistence.Salvaged) (reservation.Records, error)
	// Forget drops what the node remembers of the link-layer addresses of these.
	Forget func([]netip.Addr) error
	// ForgetOwner drops what the node remembers of an earlier owner of these addresses.
	ForgetOwner func([]netip.Addr) error
	// UseOf asks the kernel whether it uses an address.
	UseOf func(netip.Addr) (ipam.Use, error)
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
	for _, opener := range p.Sources {
		if s := opener(verb); s != nil {
			open = append(open, s)
		}
	}
	return open
}
