package creation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/spread"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Paths of the webhooks for pods that are being created. SpreadPath is that of pods that are sent
// because of the label of their namespace for spreads.
const (
	Path       = "/mutate-pod"
	SpreadPath = "/mutate-pod-of-spread"
)

// Handler answers for pods that are being created.
type Handler struct {
	// Planners are asked in order. A later planner cannot contradict an earlier one.
	Planners []Planner
	// MaxReservation is the longest reservation that the plugin is configured with.
	MaxReservation time.Duration
	Clock          clock.PassiveClock
	// Labelled tells that the webhook is the one of SpreadPath.
	Labelled bool
}

// Handle answers one request.
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	facts, warnings, err := h.gather(ctx, req)
	switch {
	case errors.Is(err, ErrEssential):
		return admission.Errored(http.StatusServiceUnavailable, err)
	case err != nil:
		return admission.Errored(http.StatusBadRequest, err)
	}
	if ConcernOf(facts.Pod) == Nothing {
		return admission.Allowed("")
	}
	agreed, err := h.plan(ctx, facts)
	if err == nil {
		err = agreed.commit(ctx, facts.DryRun)
	}
	warnings = append(warnings, agreed.warnings...)
	if err != nil {
		return admission.Errored(http.StatusServiceUnavailable, err).WithWarnings(warnings...)
	}
	withoutKept(&agreed.patch, facts.Kept)
	if facts.Retention != (reservation.RetentionRequest{}) || refersToClaim(facts.Pod) {
		warnings = append(warnings, askNetworks(facts, &agreed.patch)...)
	}
	operations, err := podpatch.Operations(req.Object.Raw, agreed.patch)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err).WithWarnings(warnings...)
	}
	return admission.Patched("", operations...).WithWarnings(warnings...)
}

// gather collects the facts that all planners share.
func (h *Handler) gather(ctx context.Context, req admission.Request) (facts Facts, warnings []string, err error) {
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
	facts = Facts{Pod: pod, UID: req.UID, DryRun: dryRun, Labelled: h.Labelled, Now: h.Clock.Now()}
	if err := h.keep(ctx, &facts); err != nil {
		return Facts{}, nil, fmt.Errorf("%w: %w", ErrEssential, err)
	}
	facts.Retention, warnings = reservation.ParseRetentionRequest(pod.Annotations, h.MaxReservation)
	if pod.Spec.HostNetwork && facts.Retention.Retain > 0 {
		facts.Retention.Retain = 0
		warnings = append(warnings, fmt.Sprintf("annotation %s does nothing: a pod with hostNetwork has the addresses of its node", asked(pod)))
	}
	return facts, warnings, nil
}

// keep adds what others ask for the addresses of a pod that returns under its name or that of its owner.
func (h *Handler) keep(ctx context.Context, facts *Facts) (err error) {
	for _, p := range h.Planners {
		if keeper, ok := p.(Keeper); ok && (returnsUnderItsName(facts.Pod) || asksForOwner(facts.Pod) || refersToClaim(facts.Pod)) {
			if facts.Kept, err = keeper.Keep(ctx, *facts); err != nil {
				return err
			}
			for key, value := range facts.Kept.Annotations {
				metav1.SetMetaDataAnnotation(&facts.Pod.ObjectMeta, key, value)
			}
		}
	}
	if refersToClaim(facts.Pod) && Claim(facts.Pod) != "" && !reservation.Asks(facts.Pod.Annotations) { // a claim keeps its addresses for as long as a network does
		forClaim := map[string]string{reservation.KeepAnnotation: h.MaxReservation.String()}
		maps.Copy(forClaim, facts.Kept.Annotations)
		facts.Kept.Annotations = forClaim
		metav1.SetMetaDataAnnotation(&facts.Pod.ObjectMeta, reservation.KeepAnnotation, forClaim[reservation.KeepAnnotation])
	}
	return nil
}

// withoutKept leaves out what the Keeper adds where the patch of a subset says for how long addresses are kept. A subset
// that takes the word away says "0": the policy limpet-kept refuses a pod that says nothing.
func withoutKept(patch *podpatch.Patch, kept podpatch.Patch) {
	var says struct {
		Metadata struct{ Annotations map[string]*string }
	}
	if json.Unmarshal(patch.Strategic, &says) != nil { // there is no patch, or it does not apply
		return
	}
	keep, word := says.Metadata.Annotations[reservation.KeepAnnotation]
	minutes, older := says.Metadata.Annotations[reservation.RetainAnnotation]
	if !word && !older {
		return
	}
	for key := range kept.Annotations {
		if key != reservation.OwnerAnnotation {
			delete(patch.Annotations, key)
		}
	}
	if keep == nil && minutes == nil {
		patch.Annotations[reservation.KeepAnnotation] = "0" // a subset's pod has annotations
	}
}

// asked returns the annotation that says for how long the addresses of a pod are kept.
func asked(pod *corev1.Pod) string {
	if _, minutes := pod.Annotations[reservation.RetainAnnotation]; minutes {
		return reservation.RetainAnnotation
	}
	return reservation.KeepAnnotation
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

// apiTimeout is how long the API server waits for a webhook that does not say how long.
const apiTimeout = 10 * time.Second

type timeoutKey struct{}

// Webhook is the webhook that serves the creation of pods.
func (h *Handler) Webhook() *webhook.Admission {
	return &webhook.Admission{Handler: h, WithContextFunc: withTimeout}
}

// withTimeout notes how long the API server waits for the answer: the URL of the request tells.
func withTimeout(ctx context.Context, r *http.Request) context.Context {
	timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || timeout <= 0 {
		return ctx
	}
	return context.WithValue(ctx, timeoutKey{}, timeout)
}

// AnswerWithin is how long a request may still be handled. The rest of the time is for the way of
// the answer. The server tells by the deadline of the context how long the request waited for its
// turn.
func AnswerWithin(ctx context.Context, now time.Time) time.Duration {
	timeout, ok := ctx.Value(timeoutKey{}).(time.Duration)
	if !ok {
		timeout = apiTimeout
	}
	within := timeout * 3 / 4
	if deadline, ok := ctx.Deadline(); ok {
		within = min(within, deadline.Sub(now)-timeout/4)
	}
	return within
}

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
func (h *Handler) plan(ctx context.Context, facts Facts) (agreement, error) {
	out := agreement{patch: facts.Kept, plans: []namedPlan{{"keep", Plan{Patch: facts.Kept}}}}
	for _, p := range h.Planners {
		facts.Place = out.patch.Required
		plan, err := p.Plan(ctx, facts)
		merged := out.patch
		if err == nil {
			merged, err = podpatch.Merge(out.patch, plan.Patch)
		}
		if err != nil {
			if retains(facts.Pod) && !facts.Pod.Spec.HostNetwork || errors.Is(err, ErrEssential) {
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

// Concern is how much the creation of a pod concerns the controller. The match conditions
// in deploy/controller/webhooks.yaml say the same in CEL, which a test compares.
type Concern int

const (
	// Nothing means that the pod is created without a call.
	Nothing Concern = iota
	// Subset means that the pod may get a subset, if its namespace has spreads. Elsewhere it is
	// created without a call. The label of the namespace says what happens without an answer.
	Subset
	// Preference means that the pod may be pinned, gets a readiness gate, or its user is warned. Without an answer the
	// pod is created as it is.
	Preference
	// Retention means that the pod asks to keep its address and returns under its name, or that it
	// names an owner. Without an answer the pod is refused, and its owner tries again.
	Retention
)

// ConcernOf tells how much the creation of a pod concerns the controller.
func ConcernOf(pod *corev1.Pod) Concern {
	asks := retains(pod)
	_, mode := pod.Annotations[reservation.ModeAnnotation]
	_, drains := pod.Annotations[policyv1beta1.AnnotationDrainFirst]
	_, hooked := pod.Annotations[policyv1beta1.AnnotationLifecycle]
	returns := returnsUnderItsName(pod)
	switch {
	case (asks && returns || asksForOwner(pod)) && !pod.Spec.HostNetwork || refersToClaim(pod): // such a pod has the addresses of its node
		return Retention
	case asks || mode || returns || drains || hooked:
		return Preference
	case mayHaveSubset(pod):
		return Subset
	}
	return Nothing
}

// retains reports whether a pod asks to keep its address, however it says for how long. limpet.dev/keep: "0" is the way
// to say not. An address that follows is kept without an end.
func retains(pod *corev1.Pod) bool {
	_, minutes := pod.Annotations[reservation.RetainAnnotation]
	return minutes || pod.Annotations[reservation.ModeAnnotation] == reservation.Follow.String() || cmp.Or(pod.Annotations[reservation.KeepAnnotation], "0") != "0"
}

// asksForOwner reports whether a pod names an owner. Any may be another's, until the webhook has completed it.
func asksForOwner(pod *corev1.Pod) bool {
	_, asks := pod.Annotations[reservation.OwnerAnnotation]
	return asks
}

// refersToClaim reports whether a network of a pod may refer to an IPAMClaim. The webhooks' conditions say the same.
func refersToClaim(pod *corev1.Pod) bool {
	return strings.Contains(pod.Annotations[reservation.NetworkSelections[0]], claimKey) && !pod.Spec.HostNetwork
}

// mayHaveSubset reports whether a spread may cover the pod.
func mayHaveSubset(pod *corev1.Pod) bool {
	owner, owned := workload.ControllerOf(pod)
	return owned && spread.Spreadable(owner)
}

// returnsUnderItsName reports whether a controller may create the pod again under the same
// name. A controller that gives its pods a prefix only has not named the pod yet.
func returnsUnderItsName(pod *corev1.Pod) bool {
	owner, owned := workload.OwnerOf(pod)
	return owned && !owner.Unstable() && pod.Name != ""
}
