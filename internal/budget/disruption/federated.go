package disruption

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/peers"
	"github.com/limpet-io/limpet/internal/budget/sites"
	"github.com/limpet-io/limpet/internal/platform/books"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// longestNonce is what the schema of a book takes.
const longestNonce = 64

// ReadPeer reads a budget of another site. Its error goes on after the name of the site.
type ReadPeer func(ctx context.Context, cluster, namespace, name string) (*limpetv1alpha1.DistributedPodDisruptionBudget, error)

// SitesOf reads all peers of a budget at once; nil for a budget without federation.
func SitesOf(ctx context.Context, cluster string, read ReadPeer, b *limpetv1alpha1.DistributedPodDisruptionBudget) *budget.Sites {
	if len(b.Spec.Federation) == 0 {
		return nil
	}
	k := &budget.Sites{
		Self: sites.SiteOf(cluster, b.Namespace, b.Name), Spec: SpecOf(cluster, b),
		Strict: b.Spec.PartitionPolicy != limpetv1alpha1.PartitionReserved, Child: b.Spec.Child != "", Peers: map[sites.Site]sites.Heard{},
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, peer := range k.Spec.Members {
		if peer == k.Self {
			continue
		}
		all.Go(func() {
			of, namespace, name := peer.Parts()
			heard := sites.Heard{}
			if other, err := read(ctx, of, namespace, name); err != nil {
				heard.Problem = err.Error()
			} else {
				heard = HeardOf(k.Self, peer, of, other)
			}
			mu.Lock()
			defer mu.Unlock()
			k.Peers[peer] = heard
		})
	}
	all.Wait()
	return k
}

// SpecOf returns what a budget of a cluster says about sites.
func SpecOf(cluster string, b *limpetv1alpha1.DistributedPodDisruptionBudget) sites.Spec {
	s := sites.Spec{MaxUnavailable: b.Spec.MaxUnavailable, MinAvailable: b.Spec.MinAvailable, Members: []sites.Site{sites.SiteOf(cluster, b.Namespace, b.Name)}}
	for _, peer := range b.Spec.Federation {
		if peer.Cluster == "" {
			peer.Cluster = cluster
		}
		if peer.Namespace == "" {
			peer.Namespace = b.Namespace
		}
		if peer.Kind == limpetv1alpha1.PeerPlain {
			peer.Name = sites.FixedName(peer.Name)
		}
		s.Members = append(s.Members, sites.SiteOf(peer.Cluster, peer.Namespace, peer.Name))
	}
	slices.Sort(s.Members)
	s.Members = slices.Compact(s.Members)
	return s
}

// HeardOf returns what a budget of another site shows. It is silent about what does not concern a site that it does
// not name.
func HeardOf(self, peer sites.Site, cluster string, b *limpetv1alpha1.DistributedPodDisruptionBudget) sites.Heard {
	h := sites.Heard{Spec: SpecOf(cluster, b)}
	switch {
	case !slices.Contains(h.Spec.Members, self):
		h.Problem = peers.ErrNotNamed.Error()
		return h
	case b.Status.Site != "" && b.Status.Site != string(peer):
		h.Problem = "calls itself " + b.Status.Site + ": give each cluster one name, as context and as --cluster-name"
		return h
	}
	h.Expected, h.Healthy, h.Allowed = b.Status.ExpectedPods, b.Status.CurrentHealthy, b.Status.DisruptionsAllowed
	if peer.Fixed() {
		switch short := b.Status.Shares[0].Short; {
		case b.Status.ObservedGeneration < b.Generation:
			h.Unsettled = "was changed and is not counted again yet"
		case short > 0:
			h.Unsettled = fmt.Sprintf("lacks %d pods beyond its share", short)
		}
		return h
	}
	h.Reports = make(map[string]sites.Report, len(b.Status.Shares))
	for _, s := range b.Status.Shares {
		if len(s.Nonce) > longestNonce {
			continue
		}
		r := sites.Report{Share: books.ShareOf(s), Short: s.Short, Pod: s.WaitingPod}
		if s.WaitingSince != nil {
			r.Since = s.WaitingSince.Time
		}
		h.Reports[s.Group] = r
	}
	return h
}
