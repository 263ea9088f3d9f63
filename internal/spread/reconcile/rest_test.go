package reconcile

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
)

// A spread of 5 000 pods is looked at once a second, however many of its pods come and go. A small
// one is looked at as soon as its events were gathered.
func TestLargeSpreadsRest(t *testing.T) {
	for pods, want := range map[int]time.Duration{10: 0, 1000: 0, 5000: time.Second - gathering} {
		if got := restOf(pods); got != want {
			t.Errorf("a spread of %d pods rests for %v, want %v", pods, got, want)
		}
	}
}

// A large spread whose look fails is tried again by the back-off of the queue alone, which a rest would reset.
func TestALargeSpreadDoesNotRestAfterAFailure(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	r := Reconciler{Clock: testingclock.NewFakePassiveClock(now)}
	req := ctrl.Request{NamespacedName: types.NamespacedName{Name: "large"}}
	r.rests.Begin(req.NamespacedName, now, restOf(5000))
	if got, err := r.result(req, time.Minute, nil); err != nil || got.RequeueAfter != time.Minute || r.rests.Left(req.NamespacedName, now) == 0 {
		t.Errorf("after a success: %+v, %v, and a rest of %v", got, err, r.rests.Left(req.NamespacedName, now))
	}
	failure := errors.New("no answer")
	if got, err := r.result(req, 0, failure); !errors.Is(err, failure) || got.RequeueAfter != 0 {
		t.Errorf("after a failure: %+v, %v", got, err)
	}
	if left := r.rests.Left(req.NamespacedName, now); left != 0 {
		t.Errorf("a spread whose look failed rests for %v", left)
	}
}
