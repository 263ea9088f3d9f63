// Package admit has what loan adds to the creation of a pod: a gate.
package admit

import (
	"context"

	"github.com/limpet-io/limpet/internal/creation"
	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Planner is the planner that puts a pod whose address follows it behind a gate. The leader opens the gate.
type Planner struct{}

var _ creation.Planner = Planner{}

// Name is the planner's name.
func (Planner) Name() string { return "loan" }

// Plan adds the gate. It reads nothing: the leader opens a gate that has no use at once.
func (Planner) Plan(_ context.Context, facts creation.Facts) (creation.Plan, error) {
	pod := facts.Pod
	owner, owned := workload.OwnerOf(pod)
	returns := owned && !owner.Unstable() && pod.Name != "" || reservation.OwnerName("", pod.Annotations) != ""
	if facts.Retention.Mode != reservation.Follow || !returns || pod.Spec.HostNetwork || pod.Spec.NodeName != "" {
		return creation.Plan{}, nil
	}
	return creation.Plan{Patch: podpatch.Patch{Gates: []string{loan.Gate}}}, nil
}
