package validate_test

import (
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/mark"
	"github.com/limpet-io/limpet/internal/platform/review"
	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

const closedPolicy = "limpet.dev/failure-policy"

// labelOf is what a namespace says about its budgets; "" for nothing.
func labelOf(t *testing.T, ns string) string {
	t.Helper()
	var namespace corev1.Namespace
	env.Read(t, client.ObjectKey{Name: ns}, &namespace)
	return namespace.Labels[policyv1beta1.LabelBudgets]
}

func labelled(t *testing.T, ns, want string) {
	t.Helper()
	if got := labelOf(t, ns); got != want {
		t.Errorf("label %q, want %q", got, want)
	}
}

// The label is there as soon as the budget is.
func TestTheNamespaceOfABudgetIsLabelled(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	for _, o := range []client.Object{ofTarget(ns, "dry", with(closedPolicy, "Closed")), formerOfTarget(ns, "dry")} {
		if err := env.Client.Create(t.Context(), o, client.DryRunAll); err != nil {
			t.Fatal(err)
		}
	}
	labelled(t, ns, "")
	if err := env.Client.Create(t.Context(), ofTarget(ns, "wrong", with("limpet.dev/vectors", "x"))); !apierrors.IsInvalid(err) {
		t.Fatal(err)
	}
	labelled(t, ns, "")
	env.Create(t, formerOfTarget(ns, "open"))
	labelled(t, ns, "open")
	env.Create(t, ofTarget(ns, "another"))
	labelled(t, ns, "open")
}

// No review closes a namespace: the leader does so when the API has the object. A review that a stranger forged
// could otherwise keep the pods of any namespace while the controller is away.
func TestNoReviewClosesANamespace(t *testing.T) {
	serve(t)
	ns, closed := env.Namespace(t), env.Namespace(t)
	env.Patch(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: closed}}, `{"metadata":{"labels":{"limpet.dev/budgets":"closed"}}}`)
	b := ofTarget(ns, "web", with(closedPolicy, "Closed"))
	env.Create(t, b)
	labelled(t, ns, "open")
	env.Annotate(t, b, closedPolicy, "Open")
	env.Annotate(t, b, closedPolicy, "Closed")
	labelled(t, ns, "open")
	env.Create(t, ofTarget(closed, "open"))
	labelled(t, closed, "closed") // and none opens one
}

// A removal of the label that has begun ends when a budget comes.
func TestABudgetEndsTheRemovalOfTheLabel(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	env.Patch(t, namespace, `{"metadata":{"labels":{"limpet.dev/budgets":"open","owner":"x"},
		"annotations":{"limpet.dev/budgets-idle-since":"2026-11-22T00:00:00Z","owner":"x"}}}`)
	env.Create(t, ofTarget(ns, "web"))
	env.Read(t, client.ObjectKeyFromObject(namespace), namespace)
	if diff := cmp.Diff(map[string]string{"owner": "x"}, namespace.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	wantLabels := map[string]string{"owner": "x", "limpet.dev/budgets": "open", "kubernetes.io/metadata.name": ns}
	if !maps.Equal(wantLabels, namespace.Labels) {
		t.Errorf("labels %v, want %v", namespace.Labels, wantLabels)
	}
}

func TestManyBudgetsAtOnceLabelOnce(t *testing.T) {
	for range 10 {
		ns := env.Namespace(t)
		namespaces := newNamespaces(env.Client)
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				if err := namespaces.Label(t.Context(), mark.Budgets, ns); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		labelled(t, ns, "open")
	}
}

func newNamespaces(c client.Client) *review.Namespaces {
	n := review.NewNamespaces(cluster.NewLiveReader(c, cluster.LimitUnproven), c, clock.RealClock{})
	n.Timeout = time.Minute // a busy machine may need longer than the API server waits
	return n
}

// API servers get a moment to notice the label, and only where it is new.
func TestANewLabelIsNoticedBeforeTheBudgetIsStored(t *testing.T) {
	ns := env.Namespace(t)
	now := testclock.NewFakeClock(time.Unix(0, 0))
	namespaces := newNamespaces(env.Client)
	namespaces.Clock = now
	answer := make(chan error, 1)
	go func() { answer <- namespaces.Label(t.Context(), mark.Budgets, ns) }()
	testenv.Eventually(t, func() error {
		if !now.HasWaiters() {
			return errors.New("nothing waits")
		}
		return nil
	})
	labelled(t, ns, "open")
	now.Step(time.Second)
	if err := <-answer; err != nil {
		t.Error(err)
	}
	if err := namespaces.Label(t.Context(), mark.Budgets, ns); err != nil { // does not wait
		t.Error(err)
	}
}

// A budget that nothing would enforce is not stored.
func TestABudgetIsRefusedWhereItsNamespaceCannotBeLabelled(t *testing.T) {
	ns := env.Namespace(t)
	agent := env.AsController(t)
	agent.Impersonate.UserName = "system:serviceaccount:limpet-system:other"
	err := newNamespaces(env.As(t, agent)).Label(t.Context(), mark.Budgets, ns)
	if !apierrors.IsServiceUnavailable(err) {
		t.Errorf("error %v, want that the request may be tried again", err)
	}
	labelled(t, ns, "")
}

// A namespace that has its label is read and not written.
func TestALabelledNamespaceIsNotWritten(t *testing.T) {
	ns := env.Namespace(t)
	c, traffic := env.Observe(t)
	namespaces := newNamespaces(c)
	for range 3 {
		if err := namespaces.Label(t.Context(), mark.Budgets, ns); err != nil {
			t.Fatal(err)
		}
	}
	if n := traffic.Count("/namespaces/" + ns); n != 4 {
		t.Errorf("%d requests, want three reads and one write", n)
	}
}

// A namespace whose budgets come in great number delays no other one.
func TestBudgetsOfANamespaceDelayNoOther(t *testing.T) {
	const many, most = 100, 16
	busy, quiet := env.Namespace(t), env.Namespace(t)
	c, traffic := env.Observe(t)
	release := traffic.Hold(t, "/namespaces/"+busy)
	namespaces := newNamespaces(c)
	answers := make(chan error, many)
	for range many {
		go func() { answers <- namespaces.Label(t.Context(), mark.Budgets, busy) }()
	}
	if err := namespaces.Label(t.Context(), mark.Budgets, quiet); err != nil {
		t.Errorf("in another namespace: %v", err)
	}
	if n := traffic.Count("/namespaces/" + busy); n > most {
		t.Errorf("%d requests at once, want at most %d", n, most)
	}
	release()
	for range many {
		if err := <-answers; err != nil && !apierrors.IsTooManyRequests(err) {
			t.Error(err)
		}
	}
}
