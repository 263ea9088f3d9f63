package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

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
	MaxRetain  time.Duration
	// REST leads to the API server.
	REST *rest.Config
	// Now reads the clocks; NetNS looks at the network namespace bound to a path.
	Now   func() reservation.Moment
	NetNS func(path string) (reservation.NetNS, bool)
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

	installed atomic.Bool
	seen      time.Time // modification time of the state when it was last read
	full      time.Time // when everything was last gone through
	failing   map[string]string
}

// New returns an agent that has not started anything.
func New(c Config) (*Agent, error) {
	w, err := newWorld(c.REST, c.Node, c.OwnNetwork)
	if err != nil {
		return nil, err
	}
	return &Agent{
		Config: c, world: w, mirror: &mirror{client: w.client, node: c.Node}, metrics: newMetrics(c.Registry),
		store: persistence.New(persistence.Options{Dir: c.StateDir}), failing: map[string]string{},
	}, nil
}

// Run works until ctx ends. Nothing in it waits for the API server but what shows
// things there.
func (a *Agent) Run(ctx context.Context) error {
	if a.PluginFile != "" {
		changed, err := installPlugin(a.PluginFile, a.BinDir)
		if err != nil {
			return err
		}
		if changed {
			a.Log.Info("Installed plugin", "path", filepath.Join(a.BinDir, pluginName))
		}
	}
	a.installed.Store(!a.OwnNetwork)
	watching := make(chan error, 1)
	go func() { watching <- a.world.start(ctx) }()
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
		case <-a.world.nodesChanged:
		}
	}
}

// Ready reports whether the plugin, and in own mode the network configuration, are
// in place.
func (a *Agent) Ready() error {
	if !a.installed.Load() {
		return errors.New("the network configuration is not installed yet")
	}
	return nil
}

// step runs one part of a round. What fails is tried again in the next round, and
// logged once for as long as it fails in the same way.
func (a *Agent) step(name string, do func() error) {
	start := a.Clock.Now()
	err := do()
	a.metrics.duration.WithLabelValues(name).Observe(a.Clock.Since(start).Seconds())
	if err == nil {
		delete(a.failing, name)
		return
	}
	a.metrics.failures.WithLabelValues(name).Inc()
	if a.failing[name] != err.Error() {
		a.failing[name] = err.Error()
		a.Log.Error(err, "Step failed, trying again", "step", name)
	}
}

// round does what is due.
func (a *Agent) round(ctx context.Context) {
	if a.OwnNetwork && a.world.synced() {
		a.step("network", func() error { return a.network(ctx) })
	}
	now := a.Clock.Now()
	changed, err := a.changed()
	if err == nil && !changed && now.Sub(a.full) < fullPeriod {
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
	if !a.world.synced() {
		return nil
	}
	a.step("reconcile", func() error { return a.reconcile(ctx, networks) })
	a.step("mirror", func() error {
		a.metrics.mirrored.Inc()
		return a.mirror.show(ctx, PlanMirror(a.Node, networks, a.Now()))
	})
	return nil
}

func (a *Agent) reconcile(ctx context.Context, networks []Network) error {
	pods, err := a.world.pods(ctx)
	if err != nil {
		return err
	}
	in := ReconcileInput{Now: a.Now(), Pods: pods, Gone: a.gone, Grace: endGrace, MaxRetain: a.MaxRetain}
	for _, n := range networks {
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

func (a *Agent) gone(at reservation.Attachment) bool {
	now, found := a.NetNS(at.NetNS.Path)
	return !found || now != at.NetNS
}

// network keeps the routes to the other nodes, and writes the network configuration
// as the last thing, since with it the node becomes Ready.
func (a *Agent) network(ctx context.Context) error {
	nodes, err := a.world.nodes(ctx)
	if err != nil {
		return err
	}
	foreign, err := foreignConfig(a.ConfDir)
	if err != nil {
		return err
	}
	if foreign != "" {
		a.installed.Store(true)
		return fmt.Errorf("%s is the node's network configuration: it and the routes are left alone; remove it, or run the agent with --network=none", filepath.Join(a.ConfDir, foreign))
	}
	if err := ApplyRoutes(a.world.links, PlanRoutes(a.Node, nodes)); err != nil {
		return err
	}
	for _, n := range nodes {
		if n.Name == a.Node {
			return a.installConflist(n)
		}
	}
	return fmt.Errorf("node %s is not registered yet", a.Node)
}

func (a *Agent) installConflist(n corev1.Node) error {
	if len(n.Spec.PodCIDRs) == 0 {
		return fmt.Errorf("node %s has no pod CIDR: run kube-controller-manager with --allocate-node-cidrs, or use another network", n.Name)
	}
	data, err := conflist(n.Spec.PodCIDRs)
	if err != nil {
		return err
	}
	path := filepath.Join(a.ConfDir, conflistName)
	changed, err := installFile(path, data, 0o644)
	if changed {
		a.Log.Info("Installed network configuration", "path", path, "podCIDRs", n.Spec.PodCIDRs)
	}
	a.installed.Store(err == nil)
	return err
}
