package admit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"gomodules.xyz/jsonpatch/v2"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/rollout"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

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
