// Package admit has what budgets add to the creation of a pod: the readiness gate limpet.dev/in-service.
package admit

import (
	"context"

	"github.com/limpet-io/limpet/internal/creation"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workload"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Planner is the planner that puts the gate on a pod that asks to be out of service before it goes or is changed. The leader puts the
// pod into service.
type Planner struct{}

var _ creation.Planner = Planner{}

// Name is the planner's name.
func (Planner) Name() string { return "drain-first" }

// Plan adds the gate. It reads nothing. Its kubelet alone says what gates a static pod has.
func (Planner) Plan(_ context.Context, facts creation.Facts) (creation.Plan, error) {
	waits, err := workload.Waits(facts.Pod.Annotations)
	switch {
	case err != nil: // the user is warned, and the pod goes without a wait
		warning := creation.Addition{Warnings: []string{err.Error()}}
		return creation.Plan{Commit: func(context.Context, bool) (creation.Addition, error) { return warning, nil }}, nil //nolint:nilerr // see above
	case !waits || workload.Mirrors(facts.Pod):
		return creation.Plan{}, nil
	}
	return creation.Plan{Patch: podpatch.Patch{ReadinessGates: []string{policyv1beta1.ConditionInService}}}, nil
}
