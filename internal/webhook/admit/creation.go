package admit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/pkg/podpatch"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// CreationPath is the path of the webhook for pods that are being created.
const CreationPath = "/mutate-pod"

// Creation answers for pods that are being created.
type Creation struct {
	// Planners are asked in order. A later planner cannot contradict an earlier one.
	Planners []Planner
	// MaxReservation is the longest reservation that the plugin is configured with.
	MaxReservation time.Duration
	Clock          clock.PassiveClock
}

// Handle answers one request.
func (c *Creation) Handle(ctx context.Context, req admission.Request) admission.Response {
	facts, warnings, err := c.gather(req)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if ConcernOf(facts.Pod) == Nothing {
		return admission.Allowed("")
	}
	agreed, err := c.plan(ctx, facts)
	warnings = append(warnings, agreed.warnings...)
	if err != nil {
		return admission.Errored(http.StatusServiceUnavailable, err).WithWarnings(warnings...)
	}
	operations, err := podpatch.Operations(req.Object.Raw, agreed.patch)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err).WithWarnings(warnings...)
	}
	if !facts.DryRun {
		if err := commitAll(ctx, agreed.commits); err != nil {
			return admission.Errored(http.StatusServiceUnavailable, err).WithWarnings(warnings...)
		}
	}
	return admission.Patched("", operations...).WithWarnings(warnings...)
}

// gather collects the facts that all planners share.
func (c *Creation) gather(req admission.Request) (facts Facts, warnings []string, err error) {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(req.Object.Raw, pod); err != nil {
		return Facts{}, nil, fmt.Errorf("decode pod: %w", err)
	}
	pod.Namespace = req.Namespace // the object of a create request need not name it
	dryRun, err := isDryRun(req)
	if err != nil {
		return Facts{}, nil, err
	}
	retention, warnings := reservation.ParseRetentionRequest(pod.Annotations, c.MaxReservation)
	return Facts{Pod: pod, UID: req.UID, DryRun: dryRun, Retention: retention, Now: c.Clock.Now()}, warnings, nil
}

// isDryRun reads both forms of a dry run: the field of the request, and the options of
// the creation.
func isDryRun(req admission.Request) (bool, error) {
	var options metav1.CreateOptions
	if len(req.Options.Raw) > 0 {
		if err := json.Unmarshal(req.Options.Raw, &options); err != nil {
			return false, fmt.Errorf("decode options: %w", err)
		}
	}
	return ptr.Deref(req.DryRun, false) || len(options.DryRun) > 0, nil
}

// agreement is what all planners add to a pod together.
type agreement struct {
	patch    podpatch.Patch
	commits  []namedCommit
	warnings []string
}

// namedCommit is the commit of one planner.
type namedCommit struct {
	planner string
	commit  Commit
}

// plan asks the planners and merges their patches. A pod whose retention is at stake is
// refused when a planner fails: its owner tries again, whereas a pod that is created now
// would lose its place and its address. Any other pod is created without the plan.
func (c *Creation) plan(ctx context.Context, facts Facts) (agreement, error) {
	var out agreement
	for _, p := range c.Planners {
		plan, err := p.Plan(ctx, facts)
		merged := out.patch
		if err == nil {
			merged, err = podpatch.Merge(out.patch, plan.Patch)
		}
		if err != nil {
			if _, asked := facts.Pod.Annotations[reservation.RetainAnnotation]; asked {
				return out, fmt.Errorf("plan %s: %w", p.Name(), err)
			}
			log.FromContext(ctx).Error(err, "Pod is created without a plan", "planner", p.Name())
			out.warnings = append(out.warnings, fmt.Sprintf("limpet: created without %s: %v", p.Name(), err))
			continue
		}
		out.patch = merged
		out.warnings = append(out.warnings, plan.Warnings...)
		if plan.Commit != nil {
			out.commits = append(out.commits, namedCommit{p.Name(), plan.Commit})
		}
		if plan.Node != "" {
			facts.Node = plan.Node
		}
	}
	return out, nil
}

// errCommit is returned when a plan could not be entered into its book.
var errCommit = errors.New("plan is not in the books")

// commitAll enters the plans into their books, in order. After a failure the pod is
// refused, and the entries that were made expire.
func commitAll(ctx context.Context, commits []namedCommit) error {
	for _, c := range commits {
		if err := c.commit(ctx); err != nil {
			return fmt.Errorf("%w: commit %s: %w", errCommit, c.planner, err)
		}
	}
	return nil
}
