package serving

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/cluster"
)

// strangersAgain is how often the addresses of pods are gathered.
const strangersAgain = 2 * time.Second

// Bits of the widest pod CIDR that counts. The token of a kubelet can make a Node with any pod CIDR, and a wide one
// would keep API servers out.
const (
	widestIPv4 = 16
	widestIPv6 = 48
)

// Strangers are the clients whose address is that of a pod. No API server has one.
//
// Two kinds of clients with addresses of a pod CIDR are none: programs of a node, which have the address of its bridge
// or tunnel there, the first ones of the range; and pods of kube-system, where the agents run through which managed
// API servers connect.
type Strangers struct {
	Cached client.Reader
	Clock  clock.Clock
	known  atomic.Pointer[podAddresses]
}

// podAddresses are those that pods have or may get.
type podAddresses struct {
	ranges  []netip.Prefix
	trusted map[netip.Addr]bool
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
	s.known.Store(addressesOf(nodes, pods.Items))
	return nil
}

// addressesOf gathers the pod CIDRs of nodes, and what is trusted in them.
func addressesOf(nodes []*corev1.Node, system []corev1.Pod) *podAddresses {
	a := &podAddresses{trusted: map[netip.Addr]bool{}}
	for _, node := range nodes {
		for _, text := range node.Spec.PodCIDRs {
			p, err := netip.ParsePrefix(text)
			if err != nil || p.Bits() < widest(p.Addr()) {
				continue
			}
			p = p.Masked()
			a.ranges = append(a.ranges, p)
			a.trusted[p.Addr()], a.trusted[p.Addr().Next()] = true, true
		}
	}
	for i := range system {
		for _, ip := range system[i].Status.PodIPs {
			if addr, err := netip.ParseAddr(ip.IP); err == nil {
				a.trusted[addr] = true
			}
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

// Has tells whether an address is that of a stranger. Until the addresses are known, none is.
func (s *Strangers) Has(source netip.Addr) bool {
	a := s.known.Load()
	return a != nil && !a.trusted[source] && slices.ContainsFunc(a.ranges, func(p netip.Prefix) bool { return p.Contains(source) })
}
