package main

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/limpet-io/limpet/internal/platform/serving"
	"github.com/limpet-io/limpet/internal/testenv"
)

// laterClock runs ahead by as much as a test says.
type laterClock struct {
	clock.RealClock
	ahead atomic.Int64
}

func (c *laterClock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.ahead.Load())) }

// A controller whose caches are not filled is restarted after a minute, and one whose caches
// were filled once and can no longer be read, too.
func TestTheLivenessProbeCanFail(t *testing.T) {
	mgr, later := env.NewManager(t, cache.Options{}), &laterClock{}
	certificate := &serving.Certificate{}
	c := checks{cache: mgr.GetCache(), certificate: certificate, clock: later, webhooks: serving.NewServer(serving.Options{
		Certificate: certificate, Limits: serving.DefaultLimits, Registry: prometheus.NewRegistry(), Clock: later,
	})}
	if _, err := c.cache.GetInformer(t.Context(), &corev1.Node{}, cache.BlockUntilSynced(false)); err != nil {
		t.Fatal(err)
	}
	alive := c.alive()["progress"]
	probe := func() error {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		return alive(r)
	}
	step := func(what string, ahead time.Duration, want string) {
		t.Helper()
		later.ahead.Store(int64(ahead))
		err := probe()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	step("it has just begun", 0, "")
	step("its caches are empty for two minutes", 2*time.Minute, "cache")
	stop := env.Start(t, mgr)
	testenv.Eventually(t, probe)
	stop()
	step("a failure is new", 2*time.Minute, "")
	step("it lasts", 4*time.Minute, "cache")
}
