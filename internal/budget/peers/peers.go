package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/limpet-io/limpet/internal/budget/sites"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// answerWithin is how long a decision waits for a peer: the API server waits 5 s for the decision.
const answerWithin = time.Second

// Options are what Peers need.
type Options struct {
	// Cluster is the name of this cluster, which other clusters use for it; "" without a name.
	Cluster string
	// Kubeconfig is a file with a context for each other cluster. It may not exist, and may change.
	Kubeconfig string
	Scheme     *runtime.Scheme
	// Cached and Live read this cluster. New bounds the reads of Live.
	Cached, Live client.Reader
}

// Peers reads budgets by the names of their clusters.
type Peers struct {
	Options
	// Events get the budgets of other clusters that have changed.
	Events chan event.GenericEvent

	mu       sync.Mutex
	written  time.Time
	clusters map[string]*connection
	watching context.Context //nolint:containedctx // of Start, which begins the watches; nil before
}

// connection is another cluster.
type connection struct {
	live   client.Reader
	cached cache.Cache
	synced func() bool
	plain  func() bool // the same for PodDisruptionBudgets; nil while no budget names one
	stop   context.CancelFunc
	ends   context.Context //nolint:containedctx // of the watches
	err    error
}

// New returns peers.
func New(o Options) *Peers {
	o.Live = cluster.NewLiveReader(o.Live, cluster.LimitProven) // users choose what is read
	return &Peers{Options: o, Events: make(chan event.GenericEvent)}
}

// errUnnamed is returned where this cluster has no name, and so none that others could use.
var errUnnamed = errors.New("is in another cluster, and this one has no name: set --cluster-name of the controller")

// ErrNotNamed is the same for a budget that does not exist: a user who names budgets of others does not learn which exist.
var ErrNotNamed = errors.New("does not exist, or does not name this budget in spec.federation")

// Read reads a budget past any cache.
func (p *Peers) Read(ctx context.Context, cluster, namespace, name string) (*limpetv1alpha1.DistributedPodDisruptionBudget, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	if cluster == p.Cluster {
		return read(ctx, p.Live, namespace, name)
	}
	c, err := p.connection(cluster) //nolint:contextcheck // a watch outlasts the request that finds a new kubeconfig
	if err != nil {
		return nil, err
	}
	return read(ctx, c.live, namespace, name)
}

// Known returns the budget as it was heard of last. Only a replica that runs Start knows those of other clusters.
func (p *Peers) Known(ctx context.Context, cluster, namespace, name string) (*limpetv1alpha1.DistributedPodDisruptionBudget, error) {
	if cluster == p.Cluster {
		return read(ctx, p.Cached, namespace, name)
	}
	c, err := p.connection(cluster) //nolint:contextcheck // a watch outlasts the request that finds a new kubeconfig
	if err != nil {
		return nil, err
	}
	if c.cached == nil || !c.synced() { // a read would wait
		return nil, errors.New("was not heard of yet")
	}
	if _, plain := sites.PlainName(name); plain && !p.watchPlain(c) {
		return nil, errors.New("was not heard of yet; kubectl limpet join --pdb lets this cluster read PodDisruptionBudgets")
	}
	return read(ctx, c.cached, namespace, name)
}

// read gets one budget. Its errors go on after the name of the peer.
func read(ctx context.Context, from client.Reader, namespace, name string) (*limpetv1alpha1.DistributedPodDisruptionBudget, error) {
	b, pdb := &limpetv1alpha1.DistributedPodDisruptionBudget{}, &policyv1.PodDisruptionBudget{}
	of := client.Object(b)
	name, plain := sites.PlainName(name)
	if plain {
		of = pdb
	}
	switch err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, of); {
	case apierrors.IsNotFound(err):
		return nil, ErrNotNamed
	case err != nil:
		return nil, fmt.Errorf("cannot be read: %w", err)
	case plain:
		return Plain(pdb), nil
	}
	return b, nil
}

// connection returns that to another cluster, from the kubeconfig as it is now.
func (p *Peers) connection(cluster string) (*connection, error) {
	if p.Cluster == "" {
		return nil, errUnnamed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.load(); err != nil {
		return nil, err
	}
	c := p.clusters[cluster]
	if c == nil {
		return nil, fmt.Errorf("is in a cluster that is no context of %s", p.Kubeconfig)
	}
	return c, c.err
}

// load reads the kubeconfig again when it has changed. The caller has the lock.
func (p *Peers) load() error {
	info, err := os.Stat(p.Kubeconfig)
	if err != nil {
		return fmt.Errorf("is in another cluster, and the kubeconfig for peers cannot be read: %w", err)
	}
	if info.ModTime().Equal(p.written) {
		return nil
	}
	config, err := clientcmd.LoadFromFile(p.Kubeconfig)
	if err != nil {
		return fmt.Errorf("is in another cluster, and the kubeconfig for peers is wrong: %w", err)
	}
	for _, c := range p.clusters {
		c.stop()
	}
	p.written, p.clusters = info.ModTime(), map[string]*connection{}
	for name := range config.Contexts {
		if name != p.Cluster {
			p.clusters[name] = p.connect(config, name)
		}
	}
	return nil
}

// kinds has the kinds that are read. What finds out which kinds an API server has waits longer than a decision.
func kinds() meta.RESTMapper {
	m := meta.NewDefaultRESTMapper([]schema.GroupVersion{limpetv1alpha1.GroupVersion, policyv1.SchemeGroupVersion})
	m.Add(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), meta.RESTScopeNamespace)
	m.Add(limpetv1alpha1.GroupVersion.WithKind("DistributedPodDisruptionBudget"), meta.RESTScopeNamespace)
	return m
}

// connect makes the clients of a context.
func (p *Peers) connect(config *clientcmdapi.Config, name string) *connection {
	c := &connection{stop: func() {}}
	rest, err := clientcmd.NewNonInteractiveClientConfig(*config, name, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		c.err = fmt.Errorf("has a wrong context in %s: %w", p.Kubeconfig, err)
		return c
	}
	if rest.ExecProvider != nil || rest.AuthProvider != nil || rest.BearerTokenFile != "" {
		c.err = fmt.Errorf("has a context in %s that runs a program or reads a file: use a token or a certificate", p.Kubeconfig)
		return c
	}
	rest.QPS = -1 // 5 a second is the default
	live, err := client.New(rest, client.Options{Scheme: p.Scheme, Mapper: kinds()})
	if err != nil {
		c.err = fmt.Errorf("cannot be asked: %w", err)
		return c
	}
	c.live = cluster.NewLiveReader(live, cluster.LimitProven) // users choose what is read
	if p.watching != nil {
		c.err = p.watch(c, rest)
	}
	return c
}
