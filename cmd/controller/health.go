package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/limpet-io/limpet/internal/health"
	"github.com/limpet-io/limpet/internal/platform/serving"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/spread/placement"
)

// progressWithin is how long a part of the controller may go without progress before the
// kubelet restarts it. An API server that switches to the conversion webhook may leave a list
// of the caches unanswered for minutes; a restarted controller gets its answer at once.
const progressWithin = time.Minute

// checkWithin is how long one check may take. The kubelet waits 5 s for a probe, which has up to two that wait.
const checkWithin = 2 * time.Second

// checks look at the parts of the controller.
type checks struct {
	cache       cache.Cache
	webhooks    *serving.Server
	certificate *serving.Certificate
	strangers   *serving.Strangers // nil where an option says who may ask
	kinds       *workloads.Reader
	tally       *placement.Tally
	clock       clock.PassiveClock
}

// ready returns the checks that must pass before the API server may send requests.
func (c checks) ready() map[string]healthz.Checker {
	all := map[string]healthz.Checker{
		"certificate": c.certificate.Ready,
		"cache":       func(r *http.Request) error { return c.synced(r.Context()) },
		"workloads":   c.kinds.Ready,
		"placement":   c.tally.Ready,
		"webhook":     c.webhooks.StartedChecker(),
	}
	if c.strangers != nil {
		all["strangers"] = c.strangers.Ready
	}
	return all
}

// alive returns the check after whose failure the controller is restarted. A part that fails
// for a moment, as on a busy node, does not fail the check.
func (c checks) alive() map[string]healthz.Checker {
	monitor, now := &health.Monitor{}, c.clock.Now()
	for _, part := range []string{"cache", "webhook"} {
		monitor.Add(part, progressWithin, now)
	}
	return map[string]healthz.Checker{"progress": func(r *http.Request) error {
		cacheErr, webhookErr := c.answers(r.Context()), c.serves(r.Context())
		now := c.clock.Now()
		monitor.Observe("cache", now, cacheErr)
		monitor.Observe("webhook", now, webhookErr)
		handlers := health.Part{Name: "handlers", Progress: c.webhooks.Oldest(now), Limit: progressWithin}
		return errors.Join(monitor.Verdict(now), health.Verdict(now, handlers))
	}}
}

var errNotSynced = errors.New("the caches are not filled yet")

func (c checks) synced(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	if !c.cache.WaitForCacheSync(ctx) {
		return errNotSynced
	}
	return nil
}

// answers checks that a filled cache can be read and still follows the API server. No read
// asks the API server: without one, a restart would only lose what the cache knows.
func (c checks) answers(ctx context.Context) error {
	if err := c.synced(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	informer, err := c.cache.GetInformer(ctx, &corev1.Node{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("find informer of nodes: %w", err)
	}
	if informer.IsStopped() {
		return errStopped
	}
	read := make(chan error, 1)
	go func() {
		read <- client.IgnoreNotFound(c.cache.Get(ctx, client.ObjectKey{Name: "none"}, &corev1.Node{}))
	}()
	select {
	case err := <-read:
		return err
	case <-ctx.Done():
		return fmt.Errorf("read cache: %w", ctx.Err())
	}
}

var errStopped = errors.New("the informer of nodes has stopped")

// serves checks that the webhook server answers. Without a certificate it cannot, and a
// restart would make none.
func (c checks) serves(ctx context.Context) error {
	if c.certificate.Ready(nil) != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkWithin)
	defer cancel()
	return c.webhooks.Answers(ctx)
}
