package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/rollout"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// ReasonInvalidPartition is the reason of the event on a StatefulSet whose percentage is none.
const ReasonInvalidPartition = "InvalidPartition"

// Partitioner writes the partitions of StatefulSets.
type Partitioner struct {
	Client client.Client
	Events events.EventRecorder
}

// Reconcile writes the partition of one StatefulSet, and how many pods will be updated. Without
// the annotation the partition is left alone.
func (p *Partitioner) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var set appsv1.StatefulSet
	if err := p.Client.Get(ctx, req.NamespacedName, &set); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if set.DeletionTimestamp != nil {
		return ctrl.Result{}, nil
	}
	change, err := p.plan(&set)
	if err != nil {
		p.Events.Eventf(&set, nil, corev1.EventTypeWarning, ReasonInvalidPartition, "Partition", "%s: %v; the partition stays", appsv1beta1.AnnotationPartition, err)
	}
	if len(change) == 0 {
		return ctrl.Result{}, nil
	}
	patch, err := json.Marshal(change)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("encode patch: %w", err)
	}
	if err := p.Client.Patch(ctx, &set, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("write partition of StatefulSet %s: %w", req, err)
	}
	return ctrl.Result{}, nil
}

// plan returns a merge patch for a StatefulSet; nil for nothing. The patch fails if the set has
// changed since it was read.
func (p *Partitioner) plan(set *appsv1.StatefulSet) (map[string]any, error) {
	text, asked := set.Annotations[appsv1beta1.AnnotationPartition]
	expected, published := set.Annotations[appsv1beta1.AnnotationExpectedUpdated]
	replicas := ptr.Deref(set.Spec.Replicas, 1)
	keeps, has, err := rollout.Partition(set, text)
	change := map[string]any{}
	var publish any
	switch {
	case asked && err != nil:
		return nil, err
	case asked && !has:
		publish = strconv.Itoa(int(replicas))
	case asked:
		publish = strconv.Itoa(int(replicas - keeps))
		if !rollout.HasPartition(set, keeps) {
			change["spec"] = map[string]any{"updateStrategy": map[string]any{"rollingUpdate": map[string]any{"partition": keeps}}}
		}
	case !published:
		return nil, nil
	}
	if publish != nil && published && publish == expected && len(change) == 0 {
		return nil, nil
	}
	change["metadata"] = map[string]any{
		"uid": set.UID, "resourceVersion": set.ResourceVersion,
		"annotations": map[string]any{appsv1beta1.AnnotationExpectedUpdated: publish},
	}
	return change, nil
}
