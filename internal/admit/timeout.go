package admit

import (
	"context"
	"net/http"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// apiTimeout is how long the API server waits for a webhook that does not say how long.
const apiTimeout = 10 * time.Second

type timeoutKey struct{}

// Webhook is the webhook that serves the creation of pods.
func (c *Creation) Webhook() *webhook.Admission {
	return &webhook.Admission{Handler: c, WithContextFunc: withTimeout}
}

// withTimeout notes how long the API server waits for the answer: the URL of the request tells.
func withTimeout(ctx context.Context, r *http.Request) context.Context {
	timeout, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || timeout <= 0 {
		return ctx
	}
	return context.WithValue(ctx, timeoutKey{}, timeout)
}

// answerWithin is how long a request may still be handled. The rest of the time is for the way of
// the answer. The server tells by the deadline of the context how long the request waited for its
// turn.
func answerWithin(ctx context.Context, now time.Time) time.Duration {
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
