package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/serving"
	"github.com/limpet-io/limpet/internal/platform/workload"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// answerWithin is how long a decision may take: half of the 5 s that the API server waits. A late answer
// lets the request pass where the failure policy is Ignore, and ends a drain elsewhere.
const answerWithin = 2500 * time.Millisecond

// Handler asks the budgets of a pod.
type Handler struct {
	// Judge decides about one request, as disruption.Judge does.
	Judge func(context.Context, disruption.Request) (disruption.Answer, error)
	// Live reads the pod of an eviction, which the request only names.
	Live client.Reader
	// Status writes whether a pod is in service; nil where no pod is taken out of it. Clock tells since when.
	Status client.SubResourceWriter
	Clock  clock.PassiveClock
}

// Handle answers one request.
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	r, err := h.gather(ctx, req)
	switch {
	case errors.Is(err, errProbe):
		return probed()
	case apierrors.IsNotFound(err):
		return admission.Allowed("") // the API server itself answers that the pod does not exist
	case errors.Is(err, errRead): // the client may try again
		return undecided(err)
	case err != nil:
		return admission.Errored(http.StatusBadRequest, err)
	}
	if r.otherUID || !Concerns(r.Request) {
		return admission.Allowed("")
	}
	answer, err := h.Judge(ctx, r.Request)
	if err != nil {
		return undecided(err)
	}
	response := respond(r.Request, answer)
	if answer.Refused() || h.Status == nil || !budget.Gated(r.Pod) {
		return response
	}
	switch hold, err := h.hold(ctx, r, answer); {
	case err != nil:
		return undecided(err)
	case hold.Left > 0 && !r.DryRun:
		return outOfService(hold)
	case hold.Left > 0:
		response.Warnings = append(response.Warnings, "without the dry run: "+hold.Message)
	}
	return response
}

// isProbe reports whether a request only asks whether the guard is called.
func isProbe(req admission.Request, r disruption.Request) bool {
	return req.Operation == admissionv1.Create && req.Name == disruption.ProbeName && r.DryRun
}

var (
	// errRead is returned when the API server did not return the pod of an eviction.
	errRead = errors.New("get pod")
	// errProbe is returned for a request that only asks whether the guard is called.
	errProbe = errors.New("probe of the guard")
)

// gathered is a request, and what only the handler needs to know.
type gathered struct {
	disruption.Request
	// otherUID tells that the client means a pod of another UID: the API server itself refuses.
	otherUID bool
	// forced tells that the client waits for no grace period.
	forced bool
}

// options are those fields of the options of a request that the guard needs.
type options struct {
	DryRun        []string              `json:"dryRun"`
	Preconditions *metav1.Preconditions `json:"preconditions"`

	GracePeriodSeconds *int64 `json:"gracePeriodSeconds"`
}

// gather reads what is about to happen to which pod.
func (h *Handler) gather(ctx context.Context, req admission.Request) (gathered, error) {
	r := gathered{Request: disruption.Request{
		DryRun: ptr.Deref(req.DryRun, false), User: req.UserInfo.Username, Info: req.UserInfo, Pod: &corev1.Pod{},
	}}
	var o options
	if len(req.Options.Raw) > 0 {
		if err := json.Unmarshal(req.Options.Raw, &o); err != nil {
			return r, fmt.Errorf("decode options: %w", err)
		}
	}
	if req.Operation == admissionv1.Create && req.SubResource == "eviction" {
		err := h.gatherEviction(ctx, req, &r, o)
		return r, err
	}
	switch {
	case req.Operation == admissionv1.Delete && req.SubResource == "":
		r.Verb = budget.VerbDelete
	case req.Operation == admissionv1.Update && (req.SubResource == "" || req.SubResource == "status"):
		r.Verb = budget.VerbUpdate
	case req.Operation == admissionv1.Update && req.SubResource == "resize":
		r.Verb = budget.VerbResize
	default:
		return r, fmt.Errorf("%s of pods/%s is not a request that the guard is asked about", req.Operation, req.SubResource)
	}
	err := gatherPods(req, &r)
	r.apply(o)
	return r, err
}

// gatherPods decodes the pod before and after the request. The name of a request is empty in a
// deletecollection; the pod has its name.
func gatherPods(req admission.Request, r *gathered) error {
	if err := json.Unmarshal(req.OldObject.Raw, r.Pod); err != nil {
		return fmt.Errorf("decode pod: %w", err)
	}
	if r.Verb == budget.VerbDelete {
		return cluster.Plausible(r.Pod, req.UID)
	}
	r.Changed = &corev1.Pod{}
	if err := json.Unmarshal(req.Object.Raw, r.Changed); err != nil {
		return fmt.Errorf("decode changed pod: %w", err)
	}
	return errors.Join(cluster.Plausible(r.Pod, req.UID), cluster.Plausible(r.Changed, req.UID))
}

// gatherEviction reads the pod, which an eviction only names. Its dry run may be said in the
// eviction itself, and a drain says it nowhere else.
func (h *Handler) gatherEviction(ctx context.Context, req admission.Request, r *gathered, o options) error {
	r.Verb = budget.VerbEvict
	var eviction struct {
		DeleteOptions *options `json:"deleteOptions"`
	}
	if err := json.Unmarshal(req.Object.Raw, &eviction); err != nil {
		return fmt.Errorf("decode eviction: %w", err)
	}
	r.apply(o)
	if eviction.DeleteOptions != nil {
		r.apply(*eviction.DeleteOptions)
	}
	if isProbe(req, r.Request) {
		return errProbe
	}
	if err := h.Live.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: req.Name}, r.Pod); err != nil {
		return fmt.Errorf("%w %s/%s: %w", errRead, req.Namespace, req.Name, err)
	}
	if eviction.DeleteOptions != nil {
		r.apply(*eviction.DeleteOptions)
	}
	return nil
}

// apply enters options into the request.
func (r *gathered) apply(o options) {
	r.DryRun = r.DryRun || len(o.DryRun) > 0
	r.forced = r.forced || ptr.Deref(o.GracePeriodSeconds, 1) == 0
	if o.Preconditions != nil && o.Preconditions.UID != nil {
		r.ByUID = true
		r.otherUID = *o.Preconditions.UID != r.Pod.UID
	}
}

// Concerns reports whether guards are asked about a request. The match conditions of
// deploy/controller/webhooks.yaml say the same in CEL, which a test compares. An eviction only
// names its pod, so that the API server sends every eviction.
func Concerns(r disruption.Request) bool {
	if !workload.Alive(r.Pod) || workload.Mirrors(r.Pod) {
		return false
	}
	return r.Verb != budget.VerbUpdate || changes(r.Pod, r.Changed) || budget.Unreadies(r.Pod, r.Changed) && !budget.Observes(r.User, r.Info.Groups)
}

// changes reports whether an update may take a pod out of a budget, or may make it unavailable.
func changes(before, after *corev1.Pod) bool {
	exempt, wasExempt := after.Annotations[policyv1beta1.AnnotationNoProtect], before.Annotations[policyv1beta1.AnnotationNoProtect]
	return exempt != wasExempt || !equality.Semantic.DeepEqual(before.Labels, after.Labels) ||
		!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences) ||
		!equality.Semantic.DeepEqual(before.Spec, after.Spec)
}

// respond says an answer in the words of the webhook.
func respond(r disruption.Request, a disruption.Answer) admission.Response {
	response := admission.Allowed("")
	switch {
	case a.Refused() && a.Reason == budget.ReasonStale:
		response = gone(r.Pod.Name, a.Message)
	case a.Refused():
		response = refusal(a)
	case r.DryRun:
		response.Warnings = a.Left
	case a.Verdict == budget.Accounted && a.Reason == budget.ReasonPolicy:
		response.Warnings = []string{fmt.Sprintf("pod %s goes whatever its budgets say (%s), and takes a unit of each", r.Pod.Name, a.Vector)}
	}
	if a.Reason != budget.ReasonUnprotected {
		response.AuditAnnotations = map[string]string{"vector": string(a.Vector), "verdict": string(a.Verdict), "reason": string(a.Reason)}
	}
	return response
}

// refusal is an answer after which clients such as kubectl drain try again. The cause is the one
// of a PodDisruptionBudget, which autoscalers know. It names no time to wait: client libraries
// would sleep and repeat the request before they tell their user.
func refusal(a disruption.Answer) admission.Response {
	var causes []metav1.StatusCause
	for _, message := range causesOf(a) {
		causes = append(causes, metav1.StatusCause{Type: policyv1.DisruptionBudgetCause, Message: message})
	}
	return later(strings.TrimSuffix(a.Message+"\n"+a.Offer, "\n"), causes...)
}

// causesOf has one entry for each budget that refuses.
func causesOf(a disruption.Answer) []string {
	title := budget.Title
	if a.Reason == budget.ReasonPDB || a.Reason == budget.ReasonManyPDBs {
		title = func(name string) string { return "PodDisruptionBudget " + name }
	}
	var all []string
	for _, name := range a.Blocking {
		all = append(all, fmt.Sprintf("%s: %s", title(name), a.Reason))
	}
	if len(all) == 0 {
		all = []string{strings.TrimSpace(string(a.Reason) + ": " + a.Message)}
	}
	return all
}

// undecided is the answer to a request that cannot be judged now. An error of the server would
// end a drain.
func undecided(err error) admission.Response {
	return later("cannot be judged now: "+err.Error(), metav1.StatusCause{Type: serving.CauseUndecided})
}

// probed is the answer to a probe of the guard.
func probed() admission.Response {
	return later("the guard is called", metav1.StatusCause{Type: disruption.CauseProbe})
}

func later(message string, causes ...metav1.StatusCause) admission.Response {
	status := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: message,
	}
	if len(causes) > 0 {
		status.Details = &metav1.StatusDetails{Causes: causes}
	}
	return denied(status)
}

// gone is the answer to a request for a pod that was rebuilt meanwhile. A drain is done with it.
func gone(pod, message string) admission.Response {
	return denied(metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound, Message: message,
		Details: &metav1.StatusDetails{Kind: string(corev1.ResourcePods), Name: pod},
	})
}

func denied(status metav1.Status) admission.Response {
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: false, Result: &status}}
}
