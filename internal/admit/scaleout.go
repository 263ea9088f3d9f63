package admit

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/rollout"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// ScaleOut is the planner that puts new pods of a StatefulSet with a limit behind a gate. The
// leader opens the gates.
type ScaleOut struct {
	Workloads *workloads.Reader
}

var _ Planner = (*ScaleOut)(nil)

// Name is the planner's name.
func (s *ScaleOut) Name() string { return "scale-out" }

// Plan adds the gate. A gate that turns out to have no use is opened at once.
func (s *ScaleOut) Plan(ctx context.Context, facts Facts) (Plan, error) {
	owner, owned := workload.OwnerOf(facts.Pod)
	if !owned || owner.GroupKind() != workloads.StatefulSets.GroupKind() || facts.Pod.Spec.NodeName != "" {
		return Plan{}, nil
	}
	set, err := s.set(ctx, facts)
	if set == nil || err != nil {
		return Plan{}, err
	}
	text, asked := set.GetAnnotations()[appsv1beta1.AnnotationScaleOutLimit]
	known, whole := set.(*appsv1.StatefulSet)
	if !asked || whole && known.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		return Plan{}, nil
	}
	if _, err := rollout.LimitOf(text, 1); err != nil {
		return Plan{}, nil //nolint:nilerr // the leader tells the user, and the pod starts without a limit
	}
	return Plan{Patch: podpatch.Patch{Gates: []string{appsv1beta1.GateScaleOut}}}, nil
}

// set returns the StatefulSet that controls the pod; nil for one that does not exist. A set that
// is new to the cache is read, but for a dry run: only its metadata is then known.
func (s *ScaleOut) set(ctx context.Context, facts Facts) (metav1.Object, error) {
	if cached := s.Workloads.CachedOwner(ctx, facts.Pod); cached != nil || facts.DryRun {
		if cached == nil {
			return nil, nil
		}
		return cached, nil
	}
	set, _, err := s.Workloads.Owner(ctx, facts.Pod, facts.Now)
	return set, err
}
