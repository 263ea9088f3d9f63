package guard

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/disruption"
)

// Path is the path of the webhooks that ask the guards.
const Path = "/guard-pod"

// answerWithin is how long a decision may take: half of the 5 s that the API server waits. A late answer
// lets the request pass where the failure policy is Ignore, and ends a drain elsewhere.
const answerWithin = 2500 * time.Millisecond

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
	return h.judge(ctx, r.Request)
}

// judge asks the guards.
func (h *Handler) judge(ctx context.Context, r Request) admission.Response {
	answer := admission.Allowed("")
	for _, g := range h.Guards {
		verdict, err := g.Judge(ctx, r)
		switch {
		case err != nil:
			return undecided(fmt.Errorf("guard %s: %w", g.Name(), err))
		case verdict.Gone:
			return gone(r.Pod.Name, verdict)
		case verdict.Refused:
			return refusal(verdict)
		}
		answer.Warnings = append(answer.Warnings, verdict.Warnings...)
		answer.AuditAnnotations = verdict.Audit
	}
	return answer
}

// isProbe tells whether a request only asks whether the guard is called.
func isProbe(req admission.Request, r Request) bool {
	return req.Operation == admissionv1.Create && req.Name == disruption.ProbeName && r.DryRun
}
