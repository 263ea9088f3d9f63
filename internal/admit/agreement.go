package admit

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// agreement is what all planners add to a pod together.
type agreement struct {
	plans    []namedPlan
	patch    podpatch.Patch // of all plans
	warnings []string
}

// namedPlan is the plan of one planner.
type namedPlan struct {
	planner string
	Plan
}

// plan asks the planners and merges their patches. A pod whose retention is at stake is
// refused when a planner fails: its owner tries again, whereas a pod that is created now
// would lose its place and its address. Any other pod is created without the plan, unless the
// planner says that the plan is essential.
func (c *Creation) plan(ctx context.Context, facts Facts) (agreement, error) {
	var out agreement
	for _, p := range c.Planners {
		facts.Place = out.patch.Required
		plan, err := p.Plan(ctx, facts)
		merged := out.patch
		if err == nil {
			merged, err = podpatch.Merge(out.patch, plan.Patch)
		}
		if err != nil {
			if _, asked := facts.Pod.Annotations[reservation.RetainAnnotation]; asked && !facts.Pod.Spec.HostNetwork || errors.Is(err, ErrEssential) {
				return out, fmt.Errorf("plan %s: %w", p.Name(), err)
			}
			log.FromContext(ctx).Error(err, "Pod is created without a plan", "planner", p.Name())
			out.warnings = append(out.warnings, fmt.Sprintf("limpet: created without %s: %v", p.Name(), err))
			continue
		}
		out.patch = merged
		out.plans = append(out.plans, namedPlan{p.Name(), plan})
		if plan.Node != "" {
			facts.Node = plan.Node
		}
	}
	return out, nil
}

// commit enters the plans into their books, in order, and adds what they add by that. After a
// failure the pod is refused, and the entries that were made expire.
func (a *agreement) commit(ctx context.Context, dryRun bool) error {
	for i := range a.plans {
		p := &a.plans[i]
		if p.Commit == nil {
			continue
		}
		added, err := p.Commit(ctx, dryRun)
		a.warnings = append(a.warnings, added.Warnings...)
		if err == nil {
			err = a.add(p, added)
		}
		if err != nil {
			return fmt.Errorf("commit %s: %w", p.planner, err)
		}
	}
	return nil
}

// add merges all patches again: one of them may be overruled, and one has grown. A patch from
// the book is the last word: where an earlier plan contradicts it, that plan does not apply.
func (a *agreement) add(by *namedPlan, added Addition) error {
	var err error
	if by.Patch, err = podpatch.Merge(by.Patch, added.Patch); err != nil {
		return err
	}
	a.overrule(func(p namedPlan) bool { return p.planner == added.Overrules })
	if err = a.merge(); errors.Is(err, podpatch.ErrContradiction) {
		a.overrule(func(p namedPlan) bool { return p.Node != "" })
		err = a.merge()
	}
	return err
}

// overrule takes back plans.
func (a *agreement) overrule(which func(namedPlan) bool) {
	for i := range a.plans {
		if p := &a.plans[i]; which(*p) {
			p.Patch = p.Instead
		}
	}
}

func (a *agreement) merge() error {
	a.patch = podpatch.Patch{}
	for _, p := range a.plans {
		var err error
		if a.patch, err = podpatch.Merge(a.patch, p.Patch); err != nil {
			return fmt.Errorf("merge %s: %w", p.planner, err)
		}
	}
	return nil
}
