package reconcile

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// checkInterval is the time between two searches. A search costs a request for each CRD.
const checkInterval = time.Minute

// mostNamed is how many objects a search names in the log. A stolen token of an agent may make thousands.
const mostNamed = 20

// Checker reports IPReservations and NodeIPPools that no reader believes: each once in the
// log, up to mostNamed in a minute, and their number as a metric. An object may be among them for a moment, when its node
// has joined again. It also reads the workloads that have metrics, and whether CRDs are missing. The
// Checker runs on the leader.
type Checker struct {
	Client client.Client
	// Live reads CRDs.
	Live    client.Reader
	Clock   clock.Clock
	Metrics *Metrics

	reported map[types.UID]bool
}

// SetupWithManager runs the checker on every leader.
func (c *Checker) SetupWithManager(mgr ctrl.Manager) error { return mgr.Add(c) }

// Start searches until the context ends.
func (c *Checker) Start(ctx context.Context) error {
	for {
		if err := c.search(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Objects of agents were not checked")
		}
		if err := c.Metrics.histories.read(ctx, c.Client); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Metrics of workloads are old")
		}
		for _, crd := range cluster.CRDs {
			if served, err := cluster.Served(ctx, c.Live, crd); err == nil { // else the next search tells
				c.Metrics.missing.WithLabelValues(crd).Set(map[bool]float64{true: 0, false: 1}[served])
			}
		}
		select {
		case <-c.Clock.After(checkInterval):
		case <-ctx.Done():
			return nil
		}
	}
}

func (c *Checker) search(ctx context.Context) error {
	found, err := cluster.Disbelieved(ctx, c.Client)
	if err != nil {
		return err
	}
	counts, reported, changed := map[string]int{"IPReservation": 0, "NodeIPPool": 0}, map[types.UID]bool{}, 0
	for _, o := range found {
		kind := "IPReservation"
		if _, ok := o.(*limpetv1alpha1.NodeIPPool); ok {
			kind = "NodeIPPool"
		}
		counts[kind]++
		if reported[o.GetUID()] = true; c.reported[o.GetUID()] {
			continue
		}
		if changed++; changed <= mostNamed {
			log.FromContext(ctx).Info("Object is not believed: the Node in its status does not own it", "kind", kind, "object", client.ObjectKeyFromObject(o))
		}
	}
	if changed > mostNamed {
		log.FromContext(ctx).Info("Further objects are not believed, for the same reason", "objects", changed-mostNamed)
	}
	for kind, n := range counts {
		c.Metrics.disbelieved.WithLabelValues(kind).Set(float64(n))
	}
	c.reported = reported
	return nil
}
