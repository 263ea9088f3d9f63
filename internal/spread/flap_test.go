package spread_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/spread"
)

// flapping is a spread whose first subset alternates: its nodes look free whenever a pod could
// return, and the scheduler refuses the pod that did.
type flapping struct {
	rules spread.Spread
	pods  map[string]*spread.PodState
	since map[string]time.Time
	moves int
}

// step decides once, and does what is decided, as the reconciler and the webhook do.
func (f *flapping) step(now time.Time) {
	in := spread.AdaptInput{Spread: f.rules, Since: f.since, Slots: map[string]map[string]spread.Slots{"1": {}}, Complete: true, Now: now}
	for _, name := range []string{"p", "q", "r"} {
		pod := *f.pods[name]
		in.Pods = append(in.Pods, pod)
		slots := in.Slots["1"][pod.Subset]
		slots.Pods++
		in.Slots["1"][pod.Subset] = slots
	}
	actions := spread.Adapt(in)
	for _, subset := range actions.Recover {
		delete(f.since, subset)
	}
	for _, subset := range actions.Skip {
		f.since[subset] = now
	}
	for _, uid := range actions.Reschedule {
		f.moves++
		*f.pods[string(uid)] = spread.PodState{UID: uid, Name: string(uid), Revision: "1", Subset: "c", Home: "a", HomeFits: true, Ready: true}
	}
	if uid := actions.Return; uid != "" {
		f.moves++
		*f.pods[string(uid)] = spread.PodState{UID: uid, Name: string(uid), Revision: "1", Subset: "a", Refused: now}
	}
}

// pending counts the pods that no node runs.
func (f *flapping) pending() (n int) {
	for _, pod := range f.pods {
		if !pod.Ready {
			n++
		}
	}
	return n
}

// A subset that seems well whenever a pod returns, and refuses the pod, moves at most one pod at a
// time, and this pod twice in the time that the subset needs to be skipped and to recover. The other
// pods run where they are.
func TestASubsetThatFlapsMovesOnePodAtATime(t *testing.T) {
	f := &flapping{rules: adaptive(of(inZone("a", 3), inZone("c", -1))), pods: map[string]*spread.PodState{}, since: map[string]time.Time{}}
	for _, name := range []string{"p", "q", "r"} {
		f.pods[name] = &spread.PodState{UID: types.UID(name), Name: name, Revision: "1", Subset: "c", Home: "a", HomeFits: true, Ready: true}
	}
	const hours = 3
	for second := range hours * 3600 {
		f.step(start.Add(time.Duration(second) * time.Second))
		if n := f.pending(); n > 1 {
			t.Fatalf("%d of 3 pods wait for a node at once", n)
		}
	}
	cycle := f.rules.Adaptive.Critical + f.rules.Adaptive.Recovery
	most := 2 * (int(hours*time.Hour/cycle) + 1)
	if f.moves == 0 || f.moves > most {
		t.Errorf("%d moves in %d hours, want some and at most %d", f.moves, hours, most)
	}
}

// Without the opt-in, a pod moves once and stays where it is, however often its first subset
// changes.
func TestPodsThatDoNotReturnMoveOnce(t *testing.T) {
	rules := adaptive(of(inZone("a", 3), inZone("c", -1)))
	rules.Adaptive.Return = false
	f := &flapping{rules: rules, pods: map[string]*spread.PodState{}, since: map[string]time.Time{}}
	for _, name := range []string{"p", "q", "r"} {
		f.pods[name] = &spread.PodState{UID: types.UID(name), Name: name, Revision: "1", Subset: "a", Refused: start}
	}
	for second := range 3600 {
		f.step(start.Add(time.Duration(second) * time.Second))
	}
	if f.moves != 3 {
		t.Errorf("%d moves of 3 pods in an hour, want one of each", f.moves)
	}
}
