package creation_test

import (
	"context"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/creation"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// handleWithin asks a webhook with so much time for the choice of a subset. The way of the answer has 2.5 s.
func handleWithin(t *testing.T, webhook *creation.Handler, req admission.Request, left time.Duration) admission.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond+left)
	defer cancel()
	return webhook.Handle(ctx, req)
}

// A request whose time is used up has no entry. In a closed namespace it takes no slot of a subset with a maximum, and
// is tried again. The pods of a StatefulSet need no entry.
func TestALateRequestTakesNoSlot(t *testing.T) {
	serve(t)
	closed, open := closedNamespace(t), env.Namespace(t)
	_, rs := aDeployment(t, closed, 1)
	_, ofOpen := aDeployment(t, open, 1)
	db := testenv.AStatefulSet("db", 2).In(closed).StatefulSet
	opened := aSpread(open, "web", "apps/v1", "Deployment", "web", "a=2")
	opened.Annotations = map[string]string{appsv1beta1.AnnotationSpreadFailure: appsv1beta1.SpreadOpen}
	env.Create(t, db, opened, aSpread(closed, "web", "apps/v1", "Deployment", "web", "a=2"), aSpread(closed, "db", "apps/v1", "StatefulSet", "db", "a=2"))
	sent(t, generated(rs))
	placed(t, "a", generated(rs))
	webhook, _ := late(t)
	for name, left := range map[string]time.Duration{
		"at the choice":                  -time.Second,
		"while it waits for the caches,": 300 * time.Millisecond, // the ReplicaSet has its pod
	} {
		if answer := handleWithin(t, webhook, createIn(t, testenv.Pod{Pod: generated(rs)}, false), left); answer.Allowed {
			t.Errorf("a request whose time ends %s is allowed: %+v", name, answer)
		}
	}
	if got := chosen(t, handleWithin(t, webhook, createIn(t, testenv.APod("db-0").In(closed).OwnedBy(db), false), -time.Second)); got != "a" {
		t.Errorf("a late pod of a StatefulSet has subset %q", got)
	}
	if answer := handleWithin(t, webhook, createIn(t, testenv.Pod{Pod: generated(ofOpen)}, false), -time.Second); !answer.Allowed {
		t.Errorf("a late pod of an open namespace: %+v", answer)
	}
}

// A pod of a closed namespace whose entry cannot be written in time is refused: nothing would bring it to the subset
// that a fixed spread has for it. Tried again, it is where it belongs. A subset without a maximum needs no entry.
func TestASlowBookOfAClosedNamespaceChangesNoSubset(t *testing.T) {
	serve(t)
	ns := closedNamespace(t)
	_, rs := aDeployment(t, ns, 6)
	env.Create(t, aSpread(ns, "web", "apps/v1", "Deployment", "web", "a=2", "b"))
	sent(t, generated(rs))
	placed(t, "a", generated(rs))
	slowBooks.Store(true)
	defer slowBooks.Store(false)
	if err := env.Client.Create(t.Context(), generated(rs)); err == nil {
		t.Error("a pod is created without an entry, want it refused")
	}
	slowBooks.Store(false)
	placed(t, "a", generated(rs))
	for range 4 {
		placed(t, "b", generated(rs))
	}
}
