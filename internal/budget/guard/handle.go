package guard

import (
	"context"
	"errors"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/budget/disruption"
)

// Path is the path of the webhooks that ask the guard.
const Path = "/guard-pod"

// answerWithin is how long a decision may take: half of the 5 s that the API server waits. A late answer
// lets the request pass where the failure policy is Ignore, and ends a drain elsewhere.
const answerWithin = 2500 * time.Millisecond

// Handler asks the budgets of a pod.
type Handler struct {
	// Judge decides about one request, as disruption.Judge does.
	Judge func(context.Context, disruption.Request) (disruption.Answer, error)
	// Live reads the pod of an eviction, which the request only names.
	Live client.Reader
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
	return respond(r.Request, answer)
}

// isProbe reports whether a request only asks whether the guard is called.
func isProbe(req admission.Request, r disruption.Request) bool {
	return req.Operation == admissionv1.Create && req.Name == disruption.ProbeName && r.DryRun
}
