package spread

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
)

// A spread of 5 000 pods is looked at once a second, however many of its pods come and go. A small
// one is looked at as soon as its events were gathered.
func TestLargeSpreadsRest(t *testing.T) {
	var p pace
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	large, small := types.NamespacedName{Name: "large"}, types.NamespacedName{Name: "small"}
	p.rest(large, 5000, now)
	p.rest(small, 1000, now)
	if left := p.left(large, now); left != time.Second-gathering {
		t.Errorf("a large spread rests for %v", left)
	}
	if left := p.left(small, now); left != 0 {
		t.Errorf("a small spread rests for %v", left)
	}
	if left := p.left(large, now.Add(time.Second)); left != 0 {
		t.Errorf("a large spread still rests for %v after a second", left)
	}
	p.rest(large, 10, now) // its workload was made smaller
	if left := p.left(large, now); left != 0 || len(p.next) != 0 {
		t.Errorf("a spread that became small rests for %v; %d are remembered", left, len(p.next))
	}
	p.rest(large, 5000, now)
	p.forget(large)
	if left := p.left(large, now); left != 0 || len(p.next) != 0 {
		t.Errorf("a spread that was deleted rests for %v; %d are remembered", left, len(p.next))
	}
}

// A large spread whose look fails is tried again by the back-off of the queue alone, which a rest would reset.
func TestALargeSpreadDoesNotRestAfterAFailure(t *testing.T) {
	var r Reconciler
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	req := ctrl.Request{NamespacedName: types.NamespacedName{Name: "large"}}
	r.pace.rest(req.NamespacedName, 5000, now)
	if got, err := r.result(req, time.Minute, nil); err != nil || got.RequeueAfter != time.Minute || r.pace.left(req.NamespacedName, now) == 0 {
		t.Errorf("after a success: %+v, %v, and a rest of %v", got, err, r.pace.left(req.NamespacedName, now))
	}
	failure := errors.New("no answer")
	if got, err := r.result(req, 0, failure); !errors.Is(err, failure) || got.RequeueAfter != 0 {
		t.Errorf("after a failure: %+v, %v", got, err)
	}
	if left := r.pace.left(req.NamespacedName, now); left != 0 {
		t.Errorf("a spread whose look failed rests for %v", left)
	}
}
