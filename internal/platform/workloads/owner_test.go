package workloads

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/workload"
)

// longReader has one workload with as much metadata as a user may write.
type longReader struct{ client.Reader }

func (longReader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	into.SetName(key.Name)
	into.SetUID("u")
	into.SetAnnotations(map[string]string{"kruise.io/auto-generate-persistent-pod-state": "true", "note": strings.Repeat("x", 200<<10)})
	into.SetLabels(map[string]string{"note": strings.Repeat("x", 200<<10)})
	into.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: strings.Repeat("x", 200<<10)}})
	return nil
}

// The workloads of the pods that were created are remembered, up to 4096 of them.
func TestALongWorkloadIsRememberedShort(t *testing.T) {
	r := &Reader{Registry: NewRegistry(), Live: longReader{}}
	id := ownerID{workload.Owner{Target: workload.Target{Group: "apps.kruise.io", Kind: "StatefulSet", Name: "web"}, UID: "u"}, "shop"}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	owner, _, err := r.liveOwner(t.Context(), StatefulSets, id, now)
	if err != nil {
		t.Fatal(err)
	}
	kept, known := r.owners.get(id, now)
	text, err := json.Marshal(kept)
	if err != nil || !known || len(text) > 1<<10 {
		t.Errorf("%d bytes of a workload are remembered, want at most 1 KiB; error %v", len(text), err)
	}
	if owner.GetUID() != "u" || len(owner.GetAnnotations()) != 1 {
		t.Errorf("workload %s has annotations %v, want that of Limpet", owner.GetUID(), owner.GetAnnotations())
	}
}
