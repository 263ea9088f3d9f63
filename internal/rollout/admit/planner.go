// Package admit has what rollout adds to the creation of a pod, a gate, and to the change of a
// StatefulSet, its partition.
package admit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"gomodules.xyz/jsonpatch/v2"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/creation"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/rollout"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Planner is the planner that puts new pods of a StatefulSet with a limit behind a gate. The
// leader opens the gates.
type Planner struct {
	Workloads *workloads.Reader
}

var _ creation.Planner = (*Planner)(nil)

// Name is the planner's name.
func (p *Planner) Name() string { return "scale-out" }

// Plan adds the gate. A gate that turns out to have no use is opened at once.
func (p *Planner) Plan(ctx context.Context, facts creation.Facts) (creation.Plan, error) {
	owner, owned := workload.OwnerOf(facts.Pod)
	if !owned || owner.GroupKind() != workloads.StatefulSets.GroupKind() || facts.Pod.Spec.NodeName != "" {
		return creation.Plan{}, nil
	}
	set, err := p.set(ctx, facts)
	if set == nil || err != nil {
		return creation.Plan{}, err
	}
	text, asked := set.GetAnnotations()[appsv1beta1.AnnotationScaleOutLimit]
	known, whole := set.(*appsv1.StatefulSet)
	if !asked || whole && known.Spec.PodManagementPolicy != appsv1.ParallelPodManagement {
		return creation.Plan{}, nil
	}
	if _, err := rollout.LimitOf(text, 1); err != nil {
		return creation.Plan{}, nil //nolint:nilerr // the leader tells the user, and the pod starts without a limit
	}
	return creation.Plan{Patch: podpatch.Patch{Gates: []string{appsv1beta1.GateScaleOut}}}, nil
}

// set returns the StatefulSet that controls the pod; nil for one that does not exist. A set that
// is new to the cache is read, but for a dry run: only its metadata is then known.
func (p *Planner) set(ctx context.Context, facts creation.Facts) (metav1.Object, error) {
	if cached := p.Workloads.CachedOwner(ctx, facts.Pod); cached != nil || facts.DryRun {
		if cached == nil {
			return nil, nil
		}
		return cached, nil
	}
	set, _, err := p.Workloads.Owner(ctx, facts.Pod, facts.Now)
	return set, err
}

// PartitionPath is the path of the webhook for StatefulSets whose partition is a percentage.
const PartitionPath = "/mutate-statefulset"

// Partition writes the partition of a StatefulSet in the request that changes its size or its
// template, so that no pod is created in between. It reads nothing. The leader writes the
// partition after a request to the scale subresource, and where no webhook answered.
type Partition struct{}

// Handle answers one request.
func (Partition) Handle(_ context.Context, req admission.Request) admission.Response {
	set := &appsv1.StatefulSet{}
	if err := json.Unmarshal(req.Object.Raw, set); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decode StatefulSet: %w", err))
	}
	text, asked := set.Annotations[appsv1beta1.AnnotationPartition]
	keeps, has, err := rollout.Partition(set, text)
	if !asked || !has || err != nil || set.DeletionTimestamp != nil || rollout.HasPartition(set, keeps) {
		return admission.Allowed("") // the leader tells of a value that is no percentage
	}
	path, value := "/spec/updateStrategy/rollingUpdate", any(map[string]any{"partition": keeps})
	if set.Spec.UpdateStrategy.RollingUpdate != nil {
		path, value = path+"/partition", keeps
	}
	return admission.Patched("", jsonpatch.NewOperation("add", path, value))
}
