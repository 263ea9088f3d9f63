package admit

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Paths of the webhooks for pods that are being created. SpreadPath is that of pods that are sent
// because of the label of their namespace for spreads.
const (
	CreationPath = "/mutate-pod"
	SpreadPath   = "/mutate-pod-of-spread"
)

// Creation answers for pods that are being created.
type Creation struct {
	// Planners are asked in order. A later planner cannot contradict an earlier one.
	Planners []Planner
	// MaxReservation is the longest reservation that the plugin is configured with.
	MaxReservation time.Duration
	Clock          clock.PassiveClock
	// Labelled tells that the webhook is the one of SpreadPath.
	Labelled bool
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
	if err == nil {
		err = agreed.commit(ctx, facts.DryRun)
	}
	warnings = append(warnings, agreed.warnings...)
	if err != nil {
		return admission.Errored(http.StatusServiceUnavailable, err).WithWarnings(warnings...)
	}
	operations, err := podpatch.Operations(req.Object.Raw, agreed.patch)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err).WithWarnings(warnings...)
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
	if err == nil {
		err = cluster.Plausible(pod, req.UID)
	}
	if err != nil {
		return Facts{}, nil, err
	}
	retention, warnings := reservation.ParseRetentionRequest(pod.Annotations, c.MaxReservation)
	if pod.Spec.HostNetwork && retention.Retain > 0 {
		retention.Retain = 0
		warnings = append(warnings, fmt.Sprintf("annotation %s does nothing: a pod with hostNetwork has the addresses of its node", reservation.RetainAnnotation))
	}
	return Facts{
		Pod: pod, UID: req.UID, DryRun: dryRun, Labelled: c.Labelled, Retention: retention, Now: c.Clock.Now(),
	}, warnings, nil
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
