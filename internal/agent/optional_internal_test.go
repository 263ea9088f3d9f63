package agent

import (
	"context"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
)

// TestAServerThatStartsDoesNotTellThatAKindIsMissing judges answers in a row, of a server that is ready or not.
func TestAServerThatStartsDoesNotTellThatAKindIsMissing(t *testing.T) {
	of := schema.GroupResource{Group: "limpet.dev", Resource: "nodenetworks"}
	notFound, forbidden := apierrors.NewNotFound(of, ""), apierrors.NewForbidden(of, "", errors.New("no role"))
	type answer struct {
		err   error
		ready bool
		after time.Duration
		want  bool
	}
	for name, answers := range map[string][]answer{
		"an answer":                          {{nil, true, 0, false}},
		"no such kind":                       {{notFound, true, 0, true}},
		"no such kind, from a starting one":  {{notFound, false, 0, true}}, // it would answer 503 if it did not know yet
		"no role":                            {{forbidden, true, 0, true}},
		"no role, from a starting one":       {{forbidden, false, 0, false}, {forbidden, false, 59 * time.Second, false}, {forbidden, true, 0, true}},
		"a server that hides whether it is":  {{forbidden, false, 0, false}, {forbidden, false, time.Minute, true}, {forbidden, false, time.Hour, true}},
		"another start, after an answer":     {{forbidden, false, 0, false}, {nil, true, time.Hour, false}, {forbidden, false, time.Hour, false}},
		"another start, after another error": {{forbidden, false, 0, false}, {errors.New("connection refused"), false, time.Hour, false}, {forbidden, false, 0, false}},
		"an error":                           {{apierrors.NewInternalError(errors.New("etcd")), false, 0, false}},
	} {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(time.Now())
			k := &optional{clock: clock}
			for i, a := range answers {
				clock.Step(a.after)
				k.ready = func(context.Context) bool { return a.ready }
				if got := k.missing(t.Context(), a.err); got != a.want {
					t.Errorf("answer %d: missing %t, want %t", i, got, a.want)
				}
			}
		})
	}
}
