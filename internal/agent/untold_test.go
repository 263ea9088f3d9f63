package agent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// untold fails requests for NodeNetworks in place of the API server until it is open.
type untold struct {
	http.RoundTripper
	open *atomic.Bool
}

func (u untold) RoundTrip(r *http.Request) (*http.Response, error) {
	if u.open.Load() || !strings.HasSuffix(r.URL.Path, "/nodenetworks") {
		return u.RoundTripper.RoundTrip(r)
	}
	return &http.Response{StatusCode: http.StatusInternalServerError, Request: r, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(""))}, nil
}

// leaveUntold makes the API server tell a node nothing of NodeNetworks until it is open.
func (n *node) leaveUntold() (open *atomic.Bool) {
	open = &atomic.Bool{}
	n.REST.Wrap(func(to http.RoundTripper) http.RoundTripper { return untold{to, open} })
	return open
}

// hears waits until the agent has recorded a generation of the NodeNetwork. It asks again after a minute at the most.
func (n *node) hears(t *testing.T, generation int64) {
	t.Helper()
	testenv.Within(t, 2*time.Minute, func() error {
		data, err := os.ReadFile(filepath.Join(n.StateDir, "limpet.nodenetwork"))
		if err != nil || !strings.Contains(string(data), fmt.Sprintf(`"generation":%d`, generation)) {
			return fmt.Errorf("record %q: %w", data, err)
		}
		return nil
	})
}

// TestARestartKeepsWhatTheNodeTold restarts an agent while the API server fails to list NodeNetworks.
// The pool tells Applied all the while, and routes to new nodes do not wait.
func TestARestartKeepsWhatTheNodeTold(t *testing.T) {
	env.Since(t, 31, "CEL functions for networks")
	inNetNS(t)
	h, ns := handle(t), env.Namespace(t)
	n := newNode(t, "net-6")
	n.OwnNetwork, n.Accepts = true, func([]byte) error { return nil }
	env.Create(t, peer("net-6", []string{"10.5.6.0/24"}, "192.0.2.1"), peer("net-7", []string{"10.5.7.0/24"}, "192.0.2.7"))
	o := nodeNetwork("net-6 Further 10.205.6.0/24", "net-7 Further 10.205.7.0/24")
	env.Create(t, o)
	stop := n.startUntil(t)
	n.configuredIs(t, v1alpha1.ReasonApplied, 1, "")
	wantRoute(t, h, "10.205.7.0/24")
	stop()
	told := n.follow(t)

	open := n.leaveUntold()
	n.Registry = prometheus.NewRegistry()
	n.start(t)
	env.Create(t, peer("net-8", []string{"10.5.8.0/24"}, "192.0.2.8"))
	wantRoute(t, h, "10.5.8.0/24")
	wantRoute(t, h, "10.205.7.0/24")
	n.conflistHas(t, 0, 2)
	n.reserve(t, ns, "web-0", 0, time.Hour)
	n.apiShows(t, map[string]v1alpha1.IPState{"web-0": v1alpha1.IPReserved}) // a pass has written
	open.Store(true)
	env.Change(t, o, func() { o.Spec.MTU = 1400 })
	n.hears(t, 2)
	n.configuredIs(t, v1alpha1.ReasonApplied, 2, "")
	for _, reason := range told(2) {
		if reason != v1alpha1.ReasonApplied {
			t.Errorf("the pool told %s", reason)
		}
	}
}

// TestRoutesDoNotWaitForTheSettings starts an agent without a record of the NodeNetwork, while the API server fails to
// list any. Routes to new nodes are made, and none is removed.
func TestRoutesDoNotWaitForTheSettings(t *testing.T) {
	env.Since(t, 31, "CEL functions for networks")
	inNetNS(t)
	h := handle(t)
	n := newNode(t, "net-9")
	n.OwnNetwork = true
	env.Create(t, peer("net-9", []string{"10.5.9.0/24"}, "192.0.2.1"), peer("net-10", []string{"10.5.10.0/24"}, "192.0.2.10"))
	o := nodeNetwork("net-10 Further 10.205.10.0/24")
	env.Create(t, o)
	stop := n.startUntil(t)
	wantRoute(t, h, "10.205.10.0/24")
	n.conflistHas(t, 0, 1) // after the routes: the loans are read first
	stop()
	if err := errors.Join(os.Remove(filepath.Join(n.StateDir, "limpet.nodenetwork")), os.Remove(filepath.Join(n.ConfDir, "10-limpet.conflist"))); err != nil {
		t.Fatal(err)
	}

	open := n.leaveUntold()
	n.Registry = prometheus.NewRegistry()
	n.start(t)
	env.Create(t, peer("net-11", []string{"10.5.11.0/24"}, "192.0.2.11"))
	wantRoute(t, h, "10.5.11.0/24")
	wantRoute(t, h, "10.205.10.0/24") // pods of the other node may have its addresses
	open.Store(true)
	n.hears(t, 1)
	n.conflistHas(t, 0, 1)
	n.configuredIs(t, v1alpha1.ReasonApplied, 1, "")
}

// TestTheNetworkDoesNotWaitForPods starts an agent that asks for its pods late, as one of thousands does.
func TestTheNetworkDoesNotWaitForPods(t *testing.T) {
	inNetNS(t)
	h := handle(t)
	n := newNode(t, "net-12")
	n.OwnNetwork, n.Pace.Start = true, time.Hour
	env.Create(t, peer("net-12", []string{"10.5.12.0/24"}, "192.0.2.1"), peer("net-13", []string{"10.5.13.0/24"}, "192.0.2.13"))
	n.start(t)
	wantRoute(t, h, "10.5.13.0/24")
	n.conflistHas(t, 0, 1)
}

// follow returns a function that returns the reasons that the pool has told since, "none" where it told none. It waits
// for one about a generation.
func (n *node) follow(t *testing.T) func(generation int64) []string {
	t.Helper()
	c, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.Watch(t.Context(), &v1alpha1.NodeIPPoolList{}, client.MatchingLabels{v1alpha1.LabelNode: n.Node})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return func(generation int64) []string {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var reasons []string
		for {
			select {
			case <-ctx.Done():
				t.Fatalf("the pool told %v, and nothing of generation %d", reasons, generation)
			case e := <-w.ResultChan():
				p, ok := e.Object.(*v1alpha1.NodeIPPool)
				if !ok || p.Status.Network != v1alpha1.NodeNetworkName {
					continue
				}
				c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionConfigured)
				switch {
				case c == nil || e.Type == watch.Deleted:
					reasons = append(reasons, "none")
				case c.ObservedGeneration == generation:
					return append(reasons, c.Reason)
				default:
					reasons = append(reasons, c.Reason)
				}
			}
		}
	}
}
