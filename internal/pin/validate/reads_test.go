package validate_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	pincontroller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/pin/validate"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
)

// A webhook that judges a PersistentPodState is sent those with the same target, and not
// all of a namespace with the records of thousands of pods.
func TestWebhookReadsNoMoreThanItNeeds(t *testing.T) {
	env.Since(t, 31, "selectable fields of CRDs")
	ns := env.Namespace(t)
	for _, name := range []string{"a", "b", "c"} {
		env.Create(t, testenv.APersistentPodState(name).In(ns).Requires(hostname).PersistentPodState)
	}
	second, other := testenv.APersistentPodState("second").In(ns).Requires(hostname), testenv.APersistentPodState("other").In(ns).Requires(hostname)
	second.Spec.TargetReference.Name = "a"
	changed := testenv.APersistentPodState("a").In(ns).Prefers(1, hostname)
	before := testenv.APersistentPodState("a").In(ns).Requires(hostname)

	cases := map[string]struct {
		selects bool
		most    int64
	}{
		"where the API server can select":                     {true, 1},
		"where it cannot, by what the cache has seen of them": {false, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spy := &reading{selects: tc.selects}
			live := cluster.NewLiveReader(spy.client(t), cluster.LimitUnproven)
			webhook := &validate.PersistentPodState{Live: live, Cached: indexed(t), Workloads: &workloads.Reader{Registry: workloads.NewRegistry()}}
			if _, err := webhook.ValidateCreate(t.Context(), second.PersistentPodState); !apierrors.IsInvalid(err) {
				t.Errorf("a second one: %v, want a refusal", err)
			}
			if _, err := webhook.ValidateCreate(t.Context(), other.PersistentPodState); err != nil {
				t.Errorf("one with a target of its own: %v", err)
			}
			if got := spy.most.Load(); got != tc.most {
				t.Errorf("an answer had %d objects, want %d at most", got, tc.most)
			}
			asked := spy.requests.Load()
			if _, err := webhook.ValidateUpdate(t.Context(), before.PersistentPodState, changed.PersistentPodState); err != nil {
				t.Errorf("update: %v", err)
			}
			if more := spy.requests.Load() - asked; more != 0 {
				t.Errorf("%d requests for an update, which cannot change the target", more)
			}
		})
	}
}

// However many PersistentPodStates a client asks about in a namespace that it names, the API
// server is asked a few times at a time, and other namespaces do not wait.
func TestQuestionsAboutANamespaceAreBounded(t *testing.T) {
	const many, most = 100, 16
	busy, quiet := env.Namespace(t), env.Namespace(t)
	c, traffic := env.Observe(t)
	release := traffic.Hold(t, "/namespaces/"+busy+"/")
	live := cluster.NewLiveReader(c, cluster.LimitUnproven)
	webhook := &validate.PersistentPodState{Live: live, Cached: indexed(t), Workloads: &workloads.Reader{Registry: workloads.NewRegistry()}}
	answers := make(chan error, many)
	for i := range many {
		state := testenv.APersistentPodState(fmt.Sprintf("web%d", i)).In(busy).Requires(hostname).PersistentPodState
		go func() {
			_, err := webhook.ValidateCreate(t.Context(), state)
			answers <- err
		}()
	}
	for range many - most { // those for which there is no room
		if err := <-answers; !apierrors.IsTooManyRequests(err) {
			t.Fatalf("answer %v, want that there are too many", err)
		}
	}
	if _, err := webhook.ValidateCreate(t.Context(), testenv.APersistentPodState("web").In(quiet).Requires(hostname).PersistentPodState); err != nil {
		t.Errorf("in another namespace: %v", err)
	}
	if n := traffic.Count("/namespaces/" + busy + "/"); n > most {
		t.Errorf("%d reads for %d questions, want at most %d", n, many, most)
	}
	release()
	for range most {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}

// reading is a transport that counts what is read. One that does not select asks the API
// server for a field that it knows as little as one of 1.30 knows any.
type reading struct {
	selects        bool
	next           http.RoundTripper
	requests, most atomic.Int64
}

func (r *reading) client(t *testing.T) client.Reader {
	t.Helper()
	config := rest.CopyConfig(env.Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { r.next = next; return r })
	c, err := client.New(config, client.Options{Scheme: env.Scheme, Mapper: env.Client.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (r *reading) RoundTrip(req *http.Request) (*http.Response, error) {
	r.requests.Add(1)
	if !r.selects {
		req = req.Clone(req.Context())
		req.URL.RawQuery = strings.ReplaceAll(req.URL.RawQuery, "spec.targetRef.name", "spec.unknown")
	}
	answer, err := r.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	answer.Body = io.NopCloser(bytes.NewReader(body))
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	r.most.Store(max(r.most.Load(), int64(len(list.Items))))
	return answer, nil
}

// indexed is a cache as a replica has it.
func indexed(t *testing.T) client.Reader {
	t.Helper()
	return env.RunCache(t, cluster.CacheOptions(pincontroller.Needs()), func(c client.FieldIndexer) error {
		return cluster.AddIndexes(t.Context(), c, pincontroller.Needs())
	})
}
