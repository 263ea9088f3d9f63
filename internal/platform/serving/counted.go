package serving

import (
	"context"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// Values of the label answer.
const (
	answerAllowed = "allowed"
	answerChanged = "changed"
	answerDenied  = "denied"
	answerError   = "error"
)

// Answers counts and times what admission webhooks answer. Dry runs are counted, too: they
// take the same time.
type Answers struct {
	times *prometheus.HistogramVec
	clock clock.PassiveClock
}

// NewAnswers registers the metrics.
func NewAnswers(r prometheus.Registerer, c clock.PassiveClock) *Answers {
	a := &Answers{clock: c, times: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "limpet_webhook_answer_seconds",
		Help: "Duration of an admission in seconds, without the wait for its turn, by webhook and answer: allowed, changed, denied, error.",
		// A webhook that may fail open has 2 s, the guard of pods 5 s.
		Buckets: []float64{0.005, 0.025, 0.1, 0.5, 1, 2, 5},
	}, []string{"webhook", "answer"})}
	r.MustRegister(a.times)
	return a
}

// Count makes a webhook of a path one that is counted. Other handlers stay as they are.
func (a *Answers) Count(path string, of http.Handler) http.Handler {
	w, is := of.(*admission.Webhook)
	if !is {
		return of
	}
	for _, answer := range []string{answerAllowed, answerDenied, answerError} {
		a.times.WithLabelValues(path, answer) // 0 is shown before the first one
	}
	handler := w.Handler
	w.Handler = admission.HandlerFunc(func(ctx context.Context, req admission.Request) admission.Response {
		start := a.clock.Now()
		response := handler.Handle(ctx, req)
		a.times.WithLabelValues(path, answerOf(response)).Observe(a.clock.Since(start).Seconds())
		return response
	})
	return w
}

// answerOf names an answer. An error of the controller is one that a client cannot mend.
func answerOf(r admission.Response) string {
	switch {
	case r.Allowed && len(r.Patches)+len(r.Patch) > 0:
		return answerChanged
	case r.Allowed:
		return answerAllowed
	case r.Result == nil:
		return answerDenied
	case r.Result.Code == http.StatusBadRequest || r.Result.Code >= http.StatusInternalServerError || undecided(r.Result):
		return answerError
	}
	return answerDenied
}

// CauseUndecided is in an answer that a client takes for a refusal, and asks again, because the controller failed.
const CauseUndecided metav1.CauseType = "Undecided"

func undecided(status *metav1.Status) bool {
	return status.Details != nil && slices.ContainsFunc(status.Details.Causes, func(c metav1.StatusCause) bool { return c.Type == CauseUndecided })
}
