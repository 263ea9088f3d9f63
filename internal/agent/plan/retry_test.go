package plan_test

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

func TestJudge(t *testing.T) {
	ips, namespaces := schema.GroupResource{Group: "limpet.dev", Resource: "ipreservations"}, schema.GroupResource{Resource: "namespaces"}
	terminating := apierrors.NewForbidden(ips, "x", errors.New("the namespace is being terminated"))
	terminating.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for name, tc := range map[string]struct {
		verb plan.Verb
		err  error
		want plan.Answer
	}{
		"no error":                            {plan.Create, nil, plan.Written},
		"a quota":                             {plan.Create, apierrors.NewForbidden(ips, "x", errors.New("exceeded quota")), plan.Refused},
		"a rule of the CRD":                   {plan.Update, apierrors.NewInvalid(schema.GroupKind{}, "x", nil), plan.Refused},
		"a webhook that fails":                {plan.Update, apierrors.NewInternalError(errors.New("failed calling webhook")), plan.Refused},
		"too many requests":                   {plan.Create, apierrors.NewTooManyRequests("later", 7), plan.Busy},
		"a server that starts":                {plan.Create, apierrors.NewServiceUnavailable("starting"), plan.Busy},
		"a server whose etcd does not answer": {plan.Create, apierrors.NewTimeoutError("etcd", 1), plan.Busy},
		"a token that is not valid any more":  {plan.Update, apierrors.NewUnauthorized("expired"), plan.Busy},
		"no connection":                       {plan.Update, errors.New("dial tcp: connection refused"), plan.Busy},
		"a kind that is not served":           {plan.Create, apierrors.NewGenericServerResponse(404, "post", ips, "", "404 page not found", 0, true), plan.Busy},
		"a namespace that is gone":            {plan.Create, apierrors.NewNotFound(namespaces, "ns"), plan.WithoutNamespace},
		"a namespace that is terminating":     {plan.Create, terminating, plan.WithoutNamespace},
		"an object that another has deleted":  {plan.Update, apierrors.NewNotFound(ips, "x"), plan.Vanished},
		"a deletion of what is gone already":  {plan.Delete, apierrors.NewNotFound(ips, "x"), plan.Written},
		"an object that another has changed":  {plan.Update, apierrors.NewConflict(ips, "x", errors.New("changed")), plan.Outdated},
		"an object that another has created":  {plan.Create, apierrors.NewAlreadyExists(ips, "x"), plan.Outdated},
	} {
		t.Run(name, func(t *testing.T) {
			if got := plan.Judge(tc.verb, tc.err); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestDelay(t *testing.T) {
	const least, most = time.Second, time.Minute
	for name, tc := range map[string]struct {
		failures int
		asked    time.Duration
		from, to time.Duration
	}{
		"the first failure":                          {1, 0, 500 * time.Millisecond, time.Second},
		"the fourth":                                 {4, 0, 4 * time.Second, 8 * time.Second},
		"the hundredth":                              {100, 0, 30 * time.Second, time.Minute},
		"a server that asks for more time":           {1, 20 * time.Second, 20 * time.Second, 20*time.Second + 500*time.Millisecond},
		"a server that asks for less than is waited": {100, time.Second, 30 * time.Second, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			if from := plan.Delay(tc.failures, least, most, tc.asked, 0); from != tc.from {
				t.Errorf("at least %s, want %s", from, tc.from)
			}
			if to := plan.Delay(tc.failures, least, most, tc.asked, 1); to != tc.to {
				t.Errorf("at most %s, want %s", to, tc.to)
			}
		})
	}
}

// TestReopen spreads the first attempt after all watches broke, and keeps to what the server asks for.
func TestReopen(t *testing.T) {
	reopen := func(failures int, asked time.Duration, random float64) time.Duration {
		return plan.Reopen(failures, time.Second, 2*time.Minute, time.Minute, asked, random)
	}
	if first, last := reopen(1, 0, 0), reopen(1, 0, 1); first != 0 || last != time.Minute {
		t.Errorf("the first attempts come from %s to %s, want 0 to a minute", first, last)
	}
	if got := reopen(1, 30*time.Second, 0); got != 30*time.Second {
		t.Errorf("after an answer that asks for 30 s: %s", got)
	}
	if got := reopen(50, 0, 0); got != time.Minute {
		t.Errorf("after many failures: %s at least, want a minute", got)
	}
	huge := apierrors.NewTooManyRequests("never", 1<<30)
	if got := plan.Asked(huge); got != 10*time.Minute {
		t.Errorf("a server that asks for 34 years is obeyed for %s", got)
	}
}
