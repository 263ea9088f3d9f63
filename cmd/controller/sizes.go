package main

import (
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/creation"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	rolloutadmit "github.com/limpet-io/limpet/internal/rollout/admit"
	rolloutcontroller "github.com/limpet-io/limpet/internal/rollout/reconcile"
	scaleincontroller "github.com/limpet-io/limpet/internal/spread/scalein/reconcile"
)

// scaleIns orders the pods of a workload for the time when the workload gets smaller.
func scaleIns() feature {
	return feature{
		name:  "scale-in order",
		needs: []cluster.Needs{scaleincontroller.Needs()},
		reconcilers: func(s shared) []reconciler {
			costs := &scaleincontroller.Reconciler{
				Client: s.leading, Clock: s.clock, Events: s.events,
				Metrics: scaleincontroller.NewMetrics(metrics.Registry),
			}
			return []reconciler{costs, &scaleincontroller.CloneSets{Reconciler: costs}}
		},
	}
}

// rollouts starts and updates the pods of StatefulSets step by step.
func rollouts() feature {
	return feature{
		name:  "rollout",
		needs: []cluster.Needs{rolloutcontroller.Needs()},
		planners: func(s shared) []creation.Planner {
			return []creation.Planner{&rolloutadmit.Planner{Workloads: s.reader}}
		},
		validators: func(shared) map[string]http.Handler {
			return map[string]http.Handler{rolloutadmit.PartitionPath: &admission.Webhook{Handler: rolloutadmit.Partition{}}}
		},
		reconcilers: func(s shared) []reconciler {
			c, metric := s.leading, rolloutcontroller.NewMetrics(metrics.Registry)
			return []reconciler{
				&rolloutcontroller.Opener{Client: c, Clock: s.clock, Events: s.events, Metrics: metric},
				&rolloutcontroller.Unlimited{Client: c, Clock: s.clock, Metrics: metric},
				&rolloutcontroller.Partitioner{Client: c, Events: s.events},
			}
		},
	}
}
