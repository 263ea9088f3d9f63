package admit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/limpet-io/limpet/internal/cluster"
	"github.com/limpet-io/limpet/internal/workloads"
	"github.com/limpet-io/limpet/pkg/workload"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/pkg/pin"
	"github.com/limpet-io/limpet/pkg/podpatch"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// PodPath is where pods that are being created are sent.
const PodPath = "/mutate-pod"

// planner says what one feature wants a pod to get.
type planner struct {
	name string
	plan func(context.Context, *corev1.Pod) (podpatch.Patch, error)
}

// PodCreate answers for pods that are being created.
type PodCreate struct {
	// Cached reads PersistentPodStates by controller.IndexTarget, IPReservations by
	// controller.IndexPod, StatefulSets and nodes.
	Cached client.Reader
	// Live reads past the cache when it may be behind.
	Live client.Reader
	// Workloads knows the kinds whose pods return.
	Workloads *workloads.Reader
	// MaxReservation is what the plugin is configured with.
	MaxReservation time.Duration
	Clock          clock.PassiveClock
}

// planners in the order in which they are asked; a later one cannot contradict an
// earlier one.
func (w *PodCreate) planners() []planner {
	return []planner{
		{name: "pin", plan: w.planPin},
	}
}

// Handle answers one request.
func (w *PodCreate) Handle(ctx context.Context, req admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(req.Object.Raw, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decode pod: %w", err))
	}
	pod.Namespace = req.Namespace // the object of a create request need not name it
	_, warnings := reservation.ParseRetentionRequest(pod.Annotations, w.MaxReservation)

	var merged podpatch.Patch
	for _, p := range w.planners() {
		patch, err := p.plan(ctx, pod)
		if err == nil {
			merged, err = podpatch.Merge(merged, patch)
		}
		if err == nil {
			continue
		}
		if _, asked := pod.Annotations[reservation.RetainAnnotation]; asked {
			// Its owner tries again; created now it would lose its place and address.
			return admission.Errored(http.StatusServiceUnavailable, fmt.Errorf("plan %s: %w", p.name, err))
		}
		log.FromContext(ctx).Error(err, "Pod is created without a plan", "planner", p.name)
		warnings = append(warnings, fmt.Sprintf("limpet: created without %s: %v", p.name, err))
	}
	return admission.Patched("", podpatch.Operations(pod, merged)...).WithWarnings(warnings...)
}

// planPin gathers what pin.Plan decides from.
func (w *PodCreate) planPin(ctx context.Context, pod *corev1.Pod) (podpatch.Patch, error) {
	wish, _ := reservation.ParseRetentionRequest(pod.Annotations, w.MaxReservation) // Handle warns
	in := pin.Input{Pod: pod, Retains: wish.Retain > 0, Now: w.Clock.Now()}
	owner, owned := workload.OwnerOf(pod)
	if !owned {
		return podpatch.Patch{}, nil
	}
	if !w.Workloads.Kinds().Contains(owner) {
		return pin.Plan(in).Patch, nil
	}
	states, err := cluster.StatesOf(ctx, w.Cached, pod.Namespace, owner)
	if err != nil {
		return podpatch.Patch{}, err
	}
	if err = w.recall(ctx, &in, pin.Choose(states)); err != nil {
		return podpatch.Patch{}, err
	}
	if name := pin.RecordedNode(in.State, pod.Name); name != "" {
		if in.Node, err = cluster.Node(ctx, w.Cached, name); err != nil {
			return podpatch.Patch{}, err
		}
		if in.Pools, err = cluster.PoolsOf(ctx, w.Cached, name); err != nil {
			return podpatch.Patch{}, err
		}
	}
	if in.State != nil && in.State.Spec.RequiredPersistentTopology != nil {
		if in.Cluster, err = cluster.Nodes(ctx, w.Cached); err != nil {
			return podpatch.Patch{}, err
		}
	}
	decision := pin.Plan(in)
	log.FromContext(ctx).V(1).Info("Planned pin", "reason", decision.Reason, "message", decision.Message)
	return decision.Patch, nil
}
