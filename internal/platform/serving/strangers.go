package serving

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/endpoint"
	"github.com/limpet-io/limpet/internal/platform/workload"
)

// strangersAgain is how often the addresses of pods are gathered.
const strangersAgain = 2 * time.Second

// Bits of the widest pod CIDR that counts. The token of a kubelet can make a Node with any pod CIDR, and a wide one
// would keep API servers out.
const (
	widestIPv4 = 16
	widestIPv6 = 48
)

// theAPIServers is the name of the EndpointSlice in the namespace default which the API servers write.
const theAPIServers = "kubernetes"

// Strangers are the clients whose address is that of a pod: one of a pod CIDR, or of a running pod without hostNetwork.
//
// Three kinds of clients with such an address are none: API servers, whatever pod CIDR the token of a kubelet gives a
// Node; pods of kube-system, where the agents run through which managed API servers connect; and programs of a node,
// which have the address of its bridge or tunnel, one of the first two of the pod CIDR, unless a pod has it.
type Strangers struct {
	Cached client.Reader
	Clock  clock.Clock
	known  atomic.Pointer[podAddresses]
}

// podAddresses are those that pods have or may get.
type podAddresses struct {
	ranges           []netip.Prefix
	trusted, bridges map[netip.Addr]bool
}

// Needs is what strangers are known by.
func Needs() cluster.Needs {
	return cluster.Needs{
		Objects: []cluster.Need{
			cluster.Of(cluster.Phase, cluster.PodAddresses),
			cluster.Of(func(from, to *corev1.Node) { to.Spec.PodCIDRs = from.Spec.PodCIDRs }),
			cluster.Of[*discoveryv1.EndpointSlice]().Named(theAPIServers, metav1.NamespaceDefault),
		},
		Indexes: []cluster.Index{cluster.PodsByAddress()},
	}
}

// Start gathers the addresses until ctx ends.
func (s *Strangers) Start(ctx context.Context) error {
	for {
		if err := s.gather(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Addresses of pods are not gathered")
		}
		select {
		case <-s.Clock.After(strangersAgain):
		case <-ctx.Done():
			return nil
		}
	}
}

// NeedLeaderElection is false: each replica serves webhooks.
func (s *Strangers) NeedLeaderElection() bool { return false }

func (s *Strangers) gather(ctx context.Context) error {
	nodes, err := cluster.Nodes(ctx, s.Cached)
	if err != nil {
		return err
	}
	var pods corev1.PodList
	if err := s.Cached.List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list pods of %s: %w", metav1.NamespaceSystem, err)
	}
	var servers discoveryv1.EndpointSlice
	err = s.Cached.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: theAPIServers}, &servers, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get addresses of API servers: %w", err)
	}
	s.known.Store(addressesOf(nodes, pods.Items, servers.Endpoints))
	return nil
}

// addressesOf gathers the pod CIDRs of nodes, and what is trusted in them.
func addressesOf(nodes []*corev1.Node, system []corev1.Pod, servers []discoveryv1.Endpoint) *podAddresses {
	a := &podAddresses{trusted: map[netip.Addr]bool{}, bridges: map[netip.Addr]bool{}}
	for _, node := range nodes {
		for _, text := range node.Spec.PodCIDRs {
			p, err := netip.ParsePrefix(text)
			if err != nil || p.Bits() < widest(p.Addr()) {
				continue
			}
			p = p.Masked()
			a.ranges = append(a.ranges, p)
			a.bridges[p.Addr()], a.bridges[p.Addr().Next()] = true, true
		}
	}
	var trusted []string
	for i := range system {
		if workload.Ended(&system[i]) {
			continue // another pod may have its address
		}
		for _, ip := range system[i].Status.PodIPs {
			trusted = append(trusted, ip.IP)
		}
	}
	for _, s := range servers {
		trusted = append(trusted, s.Addresses...)
	}
	for _, text := range trusted {
		if addr, err := netip.ParseAddr(text); err == nil {
			a.trusted[addr.Unmap()] = true
		}
	}
	return a
}

func widest(family netip.Addr) (bits int) {
	if family.Is4() {
		return widestIPv4
	}
	return widestIPv6
}

var errAddressesUnknown = errors.New("the addresses of pods are not known yet")

// Ready is an error until the addresses are known.
func (s *Strangers) Ready(*http.Request) error {
	if s.known.Load() == nil {
		return errAddressesUnknown
	}
	return nil
}

// Has reports whether an address is that of a stranger. Until the addresses are known, none is.
func (s *Strangers) Has(source netip.Addr) bool {
	a := s.known.Load()
	if a == nil || a.trusted[source] {
		return false
	}
	if !a.bridges[source] && slices.ContainsFunc(a.ranges, func(p netip.Prefix) bool { return p.Contains(source) }) {
		return true
	}
	//nolint:forbidigo // a connection has no context yet, and this reads memory only
	pods, _ := cluster.PodsAt(context.Background(), s.Cached, source.String())
	return len(pods) > 0
}

// admitSource refuses strangers, also those that connected before they were known. Conversions are answered before the
// addresses are known: the caches that tell the addresses may wait for a conversion.
func (g *gate) admitSource(r *http.Request) error {
	if g.strangers == nil {
		return nil
	}
	if err := g.strangers.Ready(r); err != nil && r.URL.Path != ConversionPath {
		return &refusal{http.StatusServiceUnavailable, "", err.Error()}
	}
	if g.strangers.Has(sourceOf(r)) {
		return &refusal{http.StatusForbidden, endpoint.RefusedNetwork, "pods may not ask"}
	}
	return nil
}
