package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Path is the path of the webhook that asks the guards.
const Path = "/guard-pod"

// errRead is returned when the API server did not return the pod of an eviction.
var errRead = errors.New("get pod")

// Handler asks the guards about one request after the other.
type Handler struct {
	Guards []Guard
	// Live reads the pod of an eviction, which the request only names.
	Live client.Reader
}

// Handle answers one request.
func (h *Handler) Handle(ctx context.Context, req admission.Request) admission.Response {
	if len(h.Guards) == 0 {
		return admission.Allowed("")
	}
	r, err := h.gather(ctx, req)
	switch {
	case apierrors.IsNotFound(err):
		return admission.Allowed("") // the API server itself answers that the pod does not exist
	case errors.Is(err, errRead): // the client may try again
		return admission.Errored(http.StatusServiceUnavailable, err)
	case err != nil:
		return admission.Errored(http.StatusBadRequest, err)
	}
	for _, g := range h.Guards {
		verdict, err := g.Judge(ctx, r)
		if err != nil {
			return admission.Errored(http.StatusServiceUnavailable, fmt.Errorf("guard %s: %w", g.Name(), err))
		}
		if verdict.Refused {
			return refusal(verdict)
		}
	}
	return admission.Allowed("")
}

// gather reads what is about to happen to which pod.
func (h *Handler) gather(ctx context.Context, req admission.Request) (Request, error) {
	r := Request{DryRun: ptr.Deref(req.DryRun, false), User: req.UserInfo.Username, Pod: &corev1.Pod{}}
	switch {
	case req.Operation == admissionv1.Create && req.SubResource == "eviction":
		r.Verb = Evict
		err := h.gatherEviction(ctx, req, &r)
		return r, err
	case req.Operation == admissionv1.Delete && req.SubResource == "":
		r.Verb = Delete
	case req.Operation == admissionv1.Update && req.SubResource == "":
		r.Verb = Update
	case req.Operation == admissionv1.Update && req.SubResource == "resize":
		r.Verb = Resize
	default:
		return r, fmt.Errorf("%s of pods/%s is not a request that guards are asked about", req.Operation, req.SubResource)
	}
	if err := json.Unmarshal(req.OldObject.Raw, r.Pod); err != nil {
		return r, fmt.Errorf("decode pod: %w", err)
	}
	if r.Verb != Delete {
		r.Changed = &corev1.Pod{}
		if err := json.Unmarshal(req.Object.Raw, r.Changed); err != nil {
			return r, fmt.Errorf("decode changed pod: %w", err)
		}
	}
	err := dryRunOption(req.Options.Raw, &r)
	return r, err
}

// gatherEviction reads the pod, which an eviction only names. Its dry run may be said in
// the eviction itself.
func (h *Handler) gatherEviction(ctx context.Context, req admission.Request, r *Request) error {
	var eviction policyv1.Eviction
	if err := json.Unmarshal(req.Object.Raw, &eviction); err != nil {
		return fmt.Errorf("decode eviction: %w", err)
	}
	if eviction.DeleteOptions != nil && len(eviction.DeleteOptions.DryRun) > 0 {
		r.DryRun = true
	}
	if err := h.Live.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: req.Name}, r.Pod); err != nil {
		return fmt.Errorf("%w %s/%s: %w", errRead, req.Namespace, req.Name, err)
	}
	return dryRunOption(req.Options.Raw, r)
}

// dryRunOption reads the option that every verb has for a dry run.
func dryRunOption(raw []byte, r *Request) error {
	if len(raw) == 0 {
		return nil
	}
	var options struct {
		DryRun []string `json:"dryRun"`
	}
	if err := json.Unmarshal(raw, &options); err != nil {
		return fmt.Errorf("decode options: %w", err)
	}
	r.DryRun = r.DryRun || len(options.DryRun) > 0
	return nil
}

// refusal is an answer after which clients such as kubectl drain try again.
func refusal(v Verdict) admission.Response {
	status := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: v.Message,
	}
	if v.RetryAfter > 0 {
		status.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(math.Ceil(v.RetryAfter.Seconds()))}
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Allowed: false, Result: &status}}
}
