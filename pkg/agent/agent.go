package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Config says where things are on the node and what the agent may do.
type Config struct {
	Node       string
	PluginFile string // the plugin's binary as it came with the agent
	BinDir     string // where runtimes look for plugins
	ConfDir    string // where runtimes look for network configurations
	StateDir   string
	OwnNetwork bool // be the node's pod network
	// MaxRetain and SharePercent are what the node's own network allows; MaxRetain holds also
	// for networks that have not said what they do.
	MaxRetain    time.Duration
	SharePercent int
	// REST leads to the API server.
	REST *rest.Config
	// NetNSDir is where the runtime binds network namespaces, as far as the agent sees
	// them; NetNS looks at the one bound to a path.
	NetNSDir string
	NetNS    func(path string) (reservation.NetNS, bool)
	// Now reads the clocks.
	Now   func() reservation.Moment
	Clock clock.WithTicker
	// Registry takes the metrics.
	Registry prometheus.Registerer
	Log      logr.Logger
}

const (
	// period is how often the agent looks for a change of the state file.
	period = time.Second
	// fullPeriod is how often it goes through everything without one.
	fullPeriod = 5 * time.Second
	// endGrace is how old an attachment must be before a missing sandbox counts.
	endGrace = 5 * time.Minute
)

// Agent runs the node's loops.
type Agent struct {
	Config
	store   *persistence.Store
	metrics *metrics
	world   *world
	mirror  *mirror

	// plans holds what the API should show, if that was not shown yet.
	plans chan []client.Object

	plugin, network atomic.Bool // what is installed
	use             atomic.Pointer[networkUse]
	told            networkUse // the use that an event was sent about
	seen            time.Time  // modification time of the state when it was last read
	full            time.Time  // when everything was last gone through

	mu      sync.Mutex
	failing map[string]string // the steps that fail, and how
}

// New returns an agent that has not started anything.
func New(c Config) (*Agent, error) {
	w, err := newWorld(c.REST, c.Node, c.OwnNetwork)
	if err != nil {
		return nil, err
	}
	return &Agent{
		Config: c, world: w, mirror: &mirror{client: w.client, node: c.Node}, metrics: newMetrics(c.Registry),
		store: persistence.New(persistence.Options{Dir: c.StateDir}),
		plans: make(chan []client.Object, 1), failing: map[string]string{},
	}, nil
}

// Run works until ctx ends. Installing and sweeping wait for no API server: what does
// is done beside the rounds, or left out of them until the server answers.
func (a *Agent) Run(ctx context.Context) error {
	release, err := hold(a.StateDir, unix.LOCK_SH) // an agent that is uninstalled ends, and Kubernetes starts it anew
	if err != nil {
		return err
	}
	defer release()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	watching := make(chan error, 1)
	go func() { watching <- a.world.start(ctx) }()
	go a.show(ctx)
	tick := a.Clock.NewTicker(period)
	defer tick.Stop()
	for {
		a.round(ctx)
		select {
		case <-ctx.Done():
			return <-watching
		case err := <-watching:
			return err
		case <-tick.C():
		case <-a.world.news:
			a.full = time.Time{} // everything is due
		}
	}
}

// Ready reports whether the plugin, and in own mode the network configuration, are
// in place.
func (a *Agent) Ready() error {
	switch {
	case !a.plugin.Load():
		return errors.New("the plugin is not installed yet")
	case a.OwnNetwork && !a.network.Load():
		return errors.New("the network configuration is not installed yet")
	}
	return nil
}

// show keeps the API like the latest plan. An API server that does not answer holds
// up whoever asks it, so this is not part of the rounds.
func (a *Agent) show(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case plan := <-a.plans:
			a.step("mirror", func() error { return a.mirror.show(ctx, plan, a.Clock.Now()) })
			a.step("event", func() error { return a.tell(ctx) })
		}
	}
}

// step runs one part of a round. What fails is tried again in the next round, and
// logged once for as long as it fails in the same way.
func (a *Agent) step(name string, do func() error) {
	start := a.Clock.Now()
	err := do()
	a.metrics.duration.WithLabelValues(name).Observe(a.Clock.Since(start).Seconds())
	old := a.outcome(name, err)
	if err == nil || errors.Is(err, context.Canceled) { // the agent is stopping
		return
	}
	a.metrics.failures.WithLabelValues(name).Inc()
	if old != err.Error() {
		a.Log.Error(err, "Step failed, trying again", "step", name)
	}
}

// outcome remembers how a step ended, and returns how it failed before.
func (a *Agent) outcome(name string, err error) (before string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before = a.failing[name]
	if err == nil {
		delete(a.failing, name)
	} else {
		a.failing[name] = err.Error()
	}
	return before
}

// round does what is due.
func (a *Agent) round(ctx context.Context) {
	now := a.Clock.Now()
	full := now.Sub(a.full) >= fullPeriod
	if full || !a.plugin.Load() {
		a.step("install", a.installPlugin)
	}
	if a.OwnNetwork && a.world.synced() && (full || !a.network.Load()) {
		a.step("network", func() error { return a.beNetwork(ctx) })
	}
	if full {
		a.step("look", a.lookAtNetwork)
		a.step("pending", func() error { return sweepPending(a.StateDir, now) })
	}
	changed, err := a.changed()
	if err == nil && !changed && !full {
		return
	}
	a.full = now
	a.step("state", func() error { return errors.Join(err, a.state(ctx)) })
}

// changed reports whether the state was written since it was last read.
func (a *Agent) changed() (bool, error) {
	info, err := os.Stat(filepath.Join(a.store.Dir(), "limpet.db"))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look at state: %w", err)
	}
	changed := !info.ModTime().Equal(a.seen)
	a.seen = info.ModTime()
	return changed, nil
}

// state sweeps, corrects and shows the state.
func (a *Agent) state(ctx context.Context) error {
	networks, err := read(ctx, a.store)
	if err != nil {
		return err
	}
	a.metrics.pools(networks, a.Node)
	a.step("sweep", func() error {
		freed, err := sweep(ctx, a.store, networks, a.Now())
		if freed > 0 {
			a.metrics.lapsed.Add(float64(freed))
			a.Log.Info("Freed lapsed reservations", "count", freed)
		}
		return err
	})
	if a.world.synced() {
		a.step("reconcile", func() error { return a.reconcile(ctx, networks) })
	}
	owner, err := a.world.owner(ctx, a.Node)
	objects := PlanMirror(a.Node, networks, a.Now())
	for _, o := range objects {
		o.SetOwnerReferences(owner)
	}
	a.plan(objects)
	return err
}

// plan leaves objects to be shown, in place of a plan that was not shown yet. Only
// the rounds call it, so that there is room for it then.
func (a *Agent) plan(objects []client.Object) {
	select {
	case <-a.plans:
	default:
	}
	a.plans <- objects
}

func (a *Agent) reconcile(ctx context.Context, networks []Network) error {
	pods, err := a.world.pods(ctx)
	if err != nil {
		return err
	}
	in := ReconcileInput{Now: a.Now(), Pods: pods, Gone: a.gone, Grace: endGrace, MaxRetain: a.MaxRetain, Caps: map[string]time.Duration{}}
	for _, n := range networks {
		if l := n.Pressure.Limits; l != nil {
			in.Caps[n.Name] = l.MaxRetain
		}
		in.Attachments = append(in.Attachments, n.Attachments...)
	}
	d := PlanReconcile(in)
	if err := d.apply(ctx, a.store, in.Now); err != nil {
		return err
	}
	a.metrics.wishes.Add(float64(len(d.Wishes)))
	a.metrics.ended.Add(float64(len(d.Ended)))
	for _, id := range d.Ended {
		a.Log.Info("Ended an attachment whose sandbox is gone", "container", id.ContainerID, "network", id.Network)
	}
	return nil
}

// gone reports whether the network namespace of an attachment is gone for sure. One
// that the agent cannot see is not: it is bound elsewhere, or its mount did not reach
// the agent, and what lies at its path is a plain file of another device.
func (a *Agent) gone(at reservation.Attachment) bool {
	if filepath.Dir(at.NetNS.Path) != filepath.Clean(a.NetNSDir) {
		return false
	}
	if _, err := os.Stat(a.NetNSDir); err != nil {
		return false
	}
	now, found := a.NetNS(at.NetNS.Path)
	return !found || now.Dev == at.NetNS.Dev && now.Inode != at.NetNS.Inode
}

// installPlugin puts the plugin in place, and back when somebody took it away.
func (a *Agent) installPlugin() error {
	path := filepath.Join(a.BinDir, pluginName)
	if _, err := os.Stat(path); a.PluginFile == "" || (a.plugin.Load() && err == nil) {
		a.plugin.Store(true)
		return nil
	}
	installed, err := installPlugin(a.PluginFile, path)
	if installed.changed {
		a.Log.Info("Installed plugin", "path", path, "version", installed.version)
	}
	a.metrics.installed(installed, err, a.Clock.Now())
	a.plugin.Store(err == nil)
	return err
}
