package admit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/creation"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/spread"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// The timeouts of a commit leave the API server some of the time that it waits for the webhook.
const (
	closedTimeout = 3500 * time.Millisecond
	openTimeout   = 1500 * time.Millisecond
)

// Reasons beside those of package spread.
const (
	// reasonSizeUnknown: a percentage of a size that cannot be read.
	reasonSizeUnknown spread.Reason = "SizeUnknown"
	// reasonNotBooked: the book could not be written, or not in time, in a namespace that is open. Where the pods are not
	// counted, the pod has no subset.
	reasonNotBooked spread.Reason = "NotBooked"
)

// commit chooses the subset of the pod, and returns what the subset adds to the pod.
func (p *placing) commit(ctx context.Context, dryRun bool) (creation.Addition, error) {
	ctx, cancel := context.WithTimeout(ctx, p.left(ctx))
	defer cancel()
	decide := p.choose
	if p.byOrdinal() {
		decide = p.assign
	}
	o, err := decide(ctx, dryRun)
	switch {
	case errors.Is(err, spread.ErrSize):
		o = outcome{Decision: spread.Decision{Reason: reasonSizeUnknown, Message: err.Error()}}
	case err != nil && p.closed:
		return creation.Addition{}, fmt.Errorf("choose a subset of WorkloadSpread %s: %w", p.object.Name, err)
	case errors.Is(err, errUnbooked) || errors.Is(err, errUncounted):
		o = outcome{Decision: spread.Decision{Reason: reasonNotBooked, Message: err.Error()}}
	case err != nil:
		o = outcome{Decision: spread.Decision{Reason: reasonNotRead, Message: err.Error()}}
	}
	if !dryRun {
		p.Metrics.placed(o.Reason)
	}
	log.FromContext(ctx).V(1).Info("Chose a subset", "spread", p.object.Name, "subset", o.Subset, "reason", o.Reason, "message", o.Message)
	if o.Subset == "" {
		p.report(dryRun, o.Reason, o.Message)
		warning := fmt.Sprintf("limpet: created without a subset of WorkloadSpread %s: %s", p.object.Name, o.Message)
		return creation.Addition{Patch: podpatch.Patch{Drop: placedAnnotations}, Warnings: []string{warning}}, nil
	}
	return p.addition(o, dryRun), nil
}

// left is how long the choice of a subset may still take.
func (p *placing) left(ctx context.Context) time.Duration {
	timeout, now := openTimeout, p.Clock.Now()
	if p.closed {
		timeout = closedTimeout
	}
	return min(timeout-now.Sub(p.facts.Now), creation.AnswerWithin(ctx, now))
}

// byOrdinal reports whether the pod's ordinal decides about its subset: where the target is a
// StatefulSet. The StatefulSets of a further kind share the maxima, and their pods are counted.
func (p *placing) byOrdinal() bool {
	return !spread.Counted(p.owner.GroupKind()) && p.owner.Target == workload.TargetOf(p.object.Spec.TargetReference)
}

// addition is what the chosen subset adds to the pod.
func (p *placing) addition(o outcome, dryRun bool) creation.Addition {
	i := slices.IndexFunc(o.rules.Subsets, func(s spread.Subset) bool { return s.Name == o.Subset })
	added := creation.Addition{Patch: spread.PatchOf(o.rules.Subsets[i], p.annotation(o.Subset))}
	if o.Home == "" {
		added.Patch.Drop = append(added.Patch.Drop, appsv1beta1.AnnotationHomeSubset)
	} else {
		added.Patch.Annotations = maps.Clone(added.Patch.Annotations)
		added.Patch.Annotations[appsv1beta1.AnnotationHomeSubset] = o.Home
	}
	if o.Reason == reasonNotBooked || o.Reason == spread.ReasonRequired {
		p.report(dryRun, o.Reason, fmt.Sprintf("Pod %s: %s", p.podName(), o.Message))
	}
	if p.fallback != nil && spread.SubsetOf(spread.Spread{Subsets: o.rules.Subsets[i : i+1]}, p.facts.Pod, p.fallback) == "" {
		added.Overrules = creation.Pin
	}
	if o.Unpinned {
		added.Overrules = creation.Pin
		p.report(dryRun, o.Reason, fmt.Sprintf("Pod %s: %s", p.podName(), o.Message))
	}
	if added.Patch.Strategic == nil {
		return added
	}
	if _, err := podpatch.Strategic(p.facts.Pod, added.Patch.Strategic); err != nil {
		added.Patch.Strategic = nil
		message := fmt.Sprintf("the patch of subset %s of WorkloadSpread %s does not apply: %v", o.Subset, p.object.Name, err)
		added.Warnings = append(added.Warnings, "limpet: created without a patch: "+message)
		p.report(dryRun, spread.ReasonBadPatch, fmt.Sprintf("Pod %s: %s", p.podName(), message))
		if !dryRun {
			p.Metrics.placed(spread.ReasonBadPatch)
		}
	}
	return added
}

// annotation is the value of the annotation with the pod's spread and subset.
func (p *placing) annotation(subset string) string {
	m := appsv1beta1.Match{Name: p.object.Name, Subset: subset}
	if p.facts.Pod.Name == "" {
		m.UID = string(p.facts.UID)
	}
	return m.String()
}

// podName is the name of the pod, or the prefix of a name that is not given yet.
func (p *placing) podName() string {
	if p.facts.Pod.Name != "" {
		return p.facts.Pod.Name
	}
	return p.facts.Pod.GenerateName + "…"
}

// mostNote is the longest note of an event.
const mostNote = 1000

// report makes an event of the spread.
func (p *placing) report(dryRun bool, reason spread.Reason, message string) {
	if !dryRun {
		p.reportOn(p.object, reason, message)
	}
}

// reportOn makes an event of an object.
func (p *placing) reportOn(object runtime.Object, reason spread.Reason, message string) {
	if p.Events == nil {
		return
	}
	if len(message) > mostNote {
		message = message[:mostNote]
	}
	p.Events.Eventf(object, nil, corev1.EventTypeWarning, string(reason), "PlacePod", "%s", message)
}

// Metrics count what a replica decided about the subsets of new pods.
type Metrics struct{ decisions *prometheus.CounterVec }

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "limpet_spread_decisions_total",
		Help: "New pods of WorkloadSpreads by the reason for their subset. NoSubsetFits, SizeUnknown and SpreadNotRead have none; NotBooked was chosen without the book, or has none while pods are not counted; " +
			"PatchFailed is counted in addition. Dry runs are not counted.",
	}, []string{"reason"})}
	for _, reason := range countedReasons {
		m.decisions.WithLabelValues(string(reason)) // 0 is shown before the first one
	}
	r.MustRegister(m.decisions)
	return m
}

// countedReasons are the values of the label.
var countedReasons = []spread.Reason{
	spread.ReasonFilled, spread.ReasonEarlier, spread.ReasonReturns, spread.ReasonRequired, spread.ReasonFull, spread.ReasonSkipped, spread.ReasonNoSubset,
	spread.ReasonNoneFits, spread.ReasonBadPatch, spread.ReasonNotWanted, reasonSizeUnknown, reasonNotBooked, reasonNotRead,
}

// placed counts one pod. Nil metrics count nothing.
func (m *Metrics) placed(reason spread.Reason) {
	if m != nil {
		m.decisions.WithLabelValues(string(reason)).Inc()
	}
}
