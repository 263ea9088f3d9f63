package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/agent/show"
	"github.com/limpet-io/limpet/internal/audit"
	"github.com/limpet-io/limpet/internal/health"
	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Config says where things are on the node and what the agent may do.
type Config struct {
	Node       string
	Version    string // of the agent, as pools show it
	PluginFile string // the plugin's binary in the agent's image; empty to install none
	BinDir     string // where runtimes look for plugins
	ConfDir    string // where runtimes look for network configurations
	StateDir   string
	OwnNetwork bool // the agent is the node's pod network
	// Flannel makes addresses follow their pods where flannel is the pod network. SubnetEnv is the file in which it describes itself.
	Flannel   bool
	SubnetEnv string
	// Shared makes addresses follow their pods where nodes share an L2 segment, as the network configuration says. Ranges returns
	// what limpet-ipam reads of one: the interface of the node in that segment, and the range sets.
	Shared bool
	Ranges func(conf []byte) (segment string, sets []ipam.Set, err error)
	// Ask asks on an interface who has some addresses, and Announce tells there who has one.
	Ask      func(link string, addrs []netip.Addr) (map[netip.Addr]net.HardwareAddr, error)
	Announce func(link string, addr netip.Addr, mac net.HardwareAddr) error
	// PodNetworks are the networks in which the pod CIDRs of nodes must be; empty for the default.
	PodNetworks []netip.Prefix
	// Adopt makes the agent patch the network configuration of the node. Accepts returns why limpet-ipam would refuse
	// a configuration.
	Adopt   bool
	Accepts func(conf []byte) error
	// MaxRetain and SharePercent are limits of the node's own network. MaxRetain also holds
	// for other networks until the first verb has stored theirs.
	MaxRetain    time.Duration
	SharePercent int
	// REST leads to the API server. Pace spreads the requests of thousands of agents.
	REST *rest.Config
	Pace show.Pace
	// Pods is the source of this node's pods; nil for the API server. PodsFrom names the source.
	Pods     podSource
	PodsFrom string
	// Running lists the attachments that a state in the directory must hold, according to libcni's
	// cache.
	Running func(dir string) ([]reservation.Attachment, error)
	// AuditPeriod is the time between two audits of the state.
	AuditPeriod time.Duration
	// OrphanGrace is how long a namespace must be gone until its reservations end; 0 for an hour.
	OrphanGrace time.Duration
	// VerbLog is the plugin's log, of which the agent counts the verbs; "" to count none.
	VerbLog string
	// NetNSDir is where the runtime binds network namespaces, as the agent sees it.
	NetNSDir string
	// Directories are those of the host that the agent watches: it ends when one is replaced.
	Directories []string
	// NetNS returns the network namespace that is bound to a path.
	NetNS func(path string) (reservation.NetNS, bool)
	// Now reads the clocks.
	Now   func() reservation.Moment
	Clock clock.WithTicker
	// Registry takes the metrics.
	Registry prometheus.Registerer
	Log      logr.Logger
}

// lends reports whether the agent makes addresses follow, and tellsPlugin where another plugin is the network.
func (c Config) lends() bool       { return c.OwnNetwork || c.tellsPlugin() }
func (c Config) tellsPlugin() bool { return c.Flannel || c.Shared }

// podSource lists the pods of this node.
type podSource interface {
	// Run keeps the list current until ctx ends.
	Run(ctx context.Context) error
	// Pods returns the list; false while the source does not know all pods. A list with an error is old.
	Pods(ctx context.Context) (list plan.PodList, known bool, err error)
}

// Agent runs the node's loops.
type Agent struct {
	Config
	store   *persistence.Store
	metrics *metrics
	cluster *clusterView
	show    *show.Loop
	lending *lending // nil unless addresses follow

	pluginInstalled atomic.Bool
	networkSettled  atomic.Bool // the network configuration stands, or is left to another owner
	plugin          fileState   // of the installed plugin, when it was last compared
	kept            bool        // the plugin was installed once
	pluginVersion   string      // as the installed plugin tells it; empty until then

	roots map[string]string // what was mounted at the directories of the host when the agent began

	decided      plan.OwnNetworkDecision // where addresses follow; as of the last round
	recorded     *plan.NodeNetwork       // the NodeNetwork as the state directory has it; nil without one
	lookedUp     bool                    // whether that was read
	started      time.Time               // when the agent began to run
	follows      persistence.Follows     // where Limpet is not the network, as the state directory has it
	cannotFollow bool                    // addresses cannot follow below this flannel, or on this segment
	unruled      bool                    // there are no rules for guests
	bridge       int                     // the number of the bridge below flannel; 0 while there is none

	announced []netip.Addr // those for which the node answers there, and of which its pods were told

	toAnnounce
	wrote      []byte                 // the network configuration of own mode, as the agent last wrote it
	patches    []time.Time            // of the network configuration, within the last hour
	notAdopted atomic.Pointer[string] // why the network is not adopted; nil before the first attempt

	ipam         atomic.Pointer[plan.NodeIPAM]
	reportedIPAM plan.NodeIPAM // as of the last event

	stateModified time.Time // of the state when it was last read
	lastFull      time.Time // when all steps last ran
	refilling     sync.Mutex
	refilled      atomic.Bool // whether the node has a state, or needs none from the API
	hadState      bool        // whether the node had a state in the last round
	unsure        bool        // whether the wall clock was not synchronized in the last round
	nextAudit     time.Time
	found         []audit.Finding // in the last audit
	reported      []audit.Finding // of them, those that were logged

	verbs verbLog

	health health.Monitor // of the loops

	mu      sync.Mutex
	failing map[string]string // error by step
}

// New returns an agent that has not started anything.
func New(c Config) (*Agent, error) {
	a := &Agent{
		Config: c, metrics: newMetrics(c.Registry), failing: map[string]string{}, verbs: verbLog{path: c.VerbLog},
		store: persistence.New(persistence.Options{Dir: c.StateDir, Existing: true}),
	}
	of := show.Config{Node: c.Node, REST: c.REST, Pace: c.Pace, Around: a.aroundPass, Clock: c.Clock, Log: c.Log}
	if c.OwnNetwork {
		of.Owner = func() []metav1.OwnerReference { return a.cluster.nodeOwner(c.Node) }
	}
	var err error
	if a.show, err = show.New(of); err != nil {
		return nil, err
	}
	v, err := newClusterView(a.show.Client, c)
	if err != nil {
		return nil, err
	}
	a.cluster = v
	if c.tellsPlugin() { // known from the beginning: what follows must not end before the API server answers
		if a.follows, err = persistence.ReadFollows(c.StateDir); err != nil {
			c.Log.Error(err, "The record is written again")
		}
	}
	if c.lends() {
		a.lending = newLending(a)
		a.Registry.MustRegister(a.metrics.loanSteps, a.metrics.loans)
	}
	if a.Pods == nil {
		a.Pods, a.PodsFrom = v, "api"
	}
	if a.Running == nil {
		a.Running = func(string) ([]reservation.Attachment, error) { return nil, nil }
	}
	if a.OrphanGrace == 0 {
		a.OrphanGrace = orphanGrace
	}
	a.metrics.podsFrom.WithLabelValues(a.PodsFrom).Set(1)
	if a.Adopt {
		a.Registry.MustRegister(a.metrics.patches, a.metrics.adopted)
	}
	return a, nil
}

// Run works until ctx ends. Rounds never wait for the API server: the loop that shows the
// state has a goroutine of its own, and steps that need the cluster view are skipped until the view is filled.
func (a *Agent) Run(ctx context.Context) error {
	release, err := lock(a.StateDir, unix.LOCK_SH) // an agent that meets an uninstall ends, and Kubernetes restarts it
	if err != nil {
		return err
	}
	defer release()
	if !a.tellsPlugin() { // as it was before: no agent lends now what the plugin would keep for that
		if err := remove(filepath.Join(a.StateDir, persistence.FollowsFile)); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	a.started = a.Clock.Now()
	watching := make(chan error, 2)
	go func() { watching <- a.cluster.start(ctx) }()
	go func() {
		if err := a.Pods.Run(ctx); err != nil {
			watching <- err
		}
	}()
	a.startHealth()
	defer a.startShow(ctx)()
	defer a.startLending(ctx)()
	tick := a.Clock.NewTicker(period)
	defer tick.Stop()
	for {
		if err := a.replaced(); err != nil {
			a.Pace.Last = 0 // the state that it would read is not that of the node
			stop()
			return errors.Join(err, <-watching)
		}
		a.round(ctx)
		a.health.Observe(partRounds, a.Clock.Now(), nil)
		select {
		case <-ctx.Done():
			return <-watching
		case err := <-watching:
			return err
		case <-tick.C():
		case <-a.cluster.lent:
			a.lend(ctx)
		case <-a.cluster.changes:
			a.lastFull = time.Time{} // the next round runs all steps
		}
	}
}

// startLending starts the loop that carries out loans. The function that it returns ends it.
func (a *Agent) startLending(ctx context.Context) (end func()) {
	if a.lending == nil {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.lending.run(ctx)
	}()
	return func() {
		stop()
		<-done
	}
}

// startShow starts the loop that shows the state. The function that it returns ends the loop, when the loop has
// shown how the last pods of the node ended: the node may be down for long.
func (a *Agent) startShow(ctx context.Context) (end func()) {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.show.Run(ctx)
	}()
	return func() {
		if a.Pace.Last > 0 {
			a.step("state", func() error { return a.offerLast(ctx) })
		}
		stop()
		<-done
	}
}

// offerLast offers the state as the agent leaves it.
func (a *Agent) offerLast(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, a.Pace.Last/2)
	defer cancel()
	networks, err := readState(ctx, a.store)
	if err != nil {
		return err
	}
	a.offer(networks)
	return nil
}

// Ready returns an error until the plugin is installed, and until the agent that sets up or adopts a network configuration has
// settled it. One that it has to leave as it is counts as settled: metrics and events tell.
func (a *Agent) Ready() error {
	switch {
	case !a.pluginInstalled.Load():
		return fmt.Errorf("the plugin is not installed yet: %s", a.failure("install"))
	case (a.OwnNetwork || a.Adopt) && !a.networkSettled.Load():
		return errors.New("the network configuration is not installed yet")
	}
	return nil
}
