package workloads

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/platform/workload"
)

// Pods can name any number of owners. A workload that was found stays known, unless its own
// namespace has most.
func TestForgedOwnersDisplaceNoFoundOne(t *testing.T) {
	var a ownerAnswers
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	id := func(namespace string, i int) ownerID {
		return ownerID{workload.Owner{Target: workload.Target{Name: fmt.Sprint("web-", i)}, UID: "u"}, namespace}
	}
	game := id("shop", 0)
	a.put(game, &metav1.PartialObjectMetadata{}, now)
	for i := range 2 * mostOwners {
		a.put(id("forged", i), nil, now)
	}
	if !a.seen(game) {
		t.Error("forged owners displaced a workload that was found")
	}
	for i := range 2 * mostOwners {
		a.put(id("tenant", i), &metav1.PartialObjectMetadata{}, now.Add(time.Duration(i)*time.Millisecond))
	}
	if !a.seen(game) {
		t.Error("workloads of another namespace displaced a workload that was found")
	}
	if a.seen(id("tenant", 0)) || !a.seen(id("tenant", 2*mostOwners-1)) {
		t.Error("the newest workload was displaced, not the oldest")
	}
	if a.found.Len() > mostOwners || a.missing.Len() > mostOwners {
		t.Errorf("%d found and %d missing owners are remembered, want at most %d", a.found.Len(), a.missing.Len(), mostOwners)
	}
	a.put(game, nil, now)
	if a.seen(game) {
		t.Error("a workload that is gone counts as found")
	}
}
