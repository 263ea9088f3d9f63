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

// answerWithin is how long a request may be handled. The rest of the time is for the way of the
// answer, and for the wait before the request was handled.
func answerWithin(ctx context.Context) time.Duration {
	timeout, ok := ctx.Value(timeoutKey{}).(time.Duration)
	if !ok {
		timeout = apiTimeout
	}
	return timeout * 3 / 4
}
