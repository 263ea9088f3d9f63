package cniplugin

import (
	"io"
	"log/slog"
	"net/netip"
	"time"

	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/internal/skel"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

const (
	// DefaultPredecessorWait bounds how long a rebuilt pod waits for the network
	// namespace of its predecessor to go, from the first refusal.
	DefaultPredecessorWait = 60 * time.Second
	// DefaultResultsDir is libcni's cache: a file for each attachment whose whole
	// chain of plugins succeeded.
	DefaultResultsDir = "/var/lib/cni/results"

	pluginType = "limpet-ipam"

	// rollbackAge is the oldest an attachment can be whose ADD still fails: the
	// kubelet gives up on a sandbox after four minutes.
	rollbackAge = 4 * time.Minute
)

// Plugin is limpet-ipam without its process: everything it learns from the
// machine comes through these fields.
type Plugin struct {
	// Now reads the clocks.
	Now func() reservation.Moment
	// NetNS looks at the network namespace bound to a path; false when there is
	// none.
	NetNS func(path string) (reservation.NetNS, bool)
	// Interfaces lists the interfaces in the network namespaces of the node, for the
	// rebuilding of a state; none when nil.
	Interfaces func() []machine.Interface
	// Forget drops what the node remembers of the link-layer addresses of these.
	Forget func([]netip.Addr) error
	// Orphaned reports that the process that started this verb is gone, so that
	// nobody will use what the verb allocates.
	Orphaned func() bool
	// ResultsDir is libcni's result cache.
	ResultsDir string
	// Stdout takes the result and nothing else.
	Stdout io.Writer
	// Log takes what a person should know; a runtime shows it when a verb succeeds.
	Log *slog.Logger
	// LogFile takes one line of each verb, unless the configuration names another; ""
	// for none.
	LogFile string

	line line // of the verb that this copy of the plugin runs
}

// Funcs returns the verbs for skel.PluginMainFuncs.
func (p *Plugin) Funcs() skel.CNIFuncs {
	return skel.CNIFuncs{
		Add:    p.logged("ADD", (*Plugin).Add),
		Del:    p.logged("DEL", (*Plugin).Del),
		Check:  p.logged("CHECK", (*Plugin).Check),
		GC:     p.logged("GC", (*Plugin).GC),
		Status: p.logged("STATUS", (*Plugin).Status),
	}
}

// store opens nothing yet; each verb locks and opens it once.
func (p *Plugin) store(c *config) *persistence.Store { return p.storeBehind(c, nil) }

// storeBehind is a store that calls waiting before a wait for its lock.
func (p *Plugin) storeBehind(c *config, waiting func()) *persistence.Store {
	return persistence.New(persistence.Options{Dir: c.dataDir, LockWait: c.lockWait, OnWait: waiting, Rebuild: p.rebuild(c)})
}

// alive reports whether the network namespace of an attachment is the one that
// was there at its ADD.
func (p *Plugin) alive(a reservation.Attachment) bool {
	if a.NetNS.Path == "" || a.NetNS.Inode == 0 {
		return false
	}
	if a.Since.BootID != "" && a.Since.BootID != p.Now().BootID {
		return false // whatever has the path and the number in this boot
	}
	now, found := p.NetNS(a.NetNS.Path)
	return found && now == a.NetNS
}
