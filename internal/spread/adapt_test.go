package spread_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/spread"
)

// adaptive skips a subset for 60 s after a pod was refused for 30 s, and lets pods return.
func adaptive(s spread.Spread) spread.Spread {
	s.Adaptive = &spread.Adaptive{Critical: 30 * time.Second, Recovery: time.Minute, Return: true}
	return s
}

// ago is a pod that was refused so long ago.
func ago(name, subset string, d time.Duration) spread.PodState {
	return spread.PodState{UID: types.UID(name), Name: name, Subset: subset, Refused: start.Add(-d)}
}

// held is a pod whose place is required.
func held(p spread.PodState) spread.PodState {
	p.Held = true
	return p
}

func TestAdaptSkipsAndRecovers(t *testing.T) {
	abc := adaptive(of(inZone("a", 2), inZone("b", 2), inZone("c", -1)))
	never, fixed := abc, abc
	never.Adaptive = &spread.Adaptive{Recovery: time.Minute}
	fixed.Adaptive = nil
	type (
		sub   = map[string]bool
		waits = map[string]int
	)
	well, ill := sub{"a": true, "b": true, "c": true}, sub{"a": false, "b": true, "c": true}
	since := func(d time.Duration) map[string]time.Time { return map[string]time.Time{"a": start.Add(-d)} }
	late, soon := ago("p", "a", 30*time.Second), ago("q", "a", 10*time.Second)
	for name, tc := range map[string]struct {
		spread spread.Spread
		since  map[string]time.Time
		pods   []spread.PodState
		want   spread.Actions
	}{
		"no pod is refused":                  {abc, nil, []spread.PodState{{UID: "p", Subset: "a"}}, spread.Actions{Schedulable: well}},
		"a pod is refused too long":          {abc, nil, []spread.PodState{late}, spread.Actions{Schedulable: ill, Skip: []string{"a"}, Reschedule: []types.UID{"p"}}},
		"a pod is refused not long":          {abc, nil, []spread.PodState{soon}, spread.Actions{Schedulable: well, Again: 20 * time.Second}},
		"one of two is refused too long":     {abc, nil, []spread.PodState{soon, late}, spread.Actions{Schedulable: ill, Skip: []string{"a"}, Reschedule: []types.UID{"p"}, Again: 20 * time.Second}},
		"in the last subset":                 {abc, nil, []spread.PodState{ago("p", "c", time.Hour)}, spread.Actions{Schedulable: well, Waits: waits{"c": 1}}},
		"in no subset":                       {abc, nil, []spread.PodState{ago("p", "", time.Hour)}, spread.Actions{Schedulable: well}},
		"a pod waits for its required place": {abc, nil, []spread.PodState{held(late)}, spread.Actions{Schedulable: well, Waits: waits{"a": 1}}},
		"a skipped subset waits":             {abc, since(20 * time.Second), nil, spread.Actions{Schedulable: ill, Again: 40 * time.Second}},
		"a skipped subset recovers":          {abc, since(time.Minute), nil, spread.Actions{Schedulable: well, Recover: []string{"a"}}},
		"a skipped subset with a pod that is still refused": {
			abc, since(time.Minute), []spread.PodState{late}, spread.Actions{Schedulable: ill, Reschedule: []types.UID{"p"}},
		},
		"a last subset that was skipped":    {abc, map[string]time.Time{"c": start}, nil, spread.Actions{Schedulable: well, Recover: []string{"c"}}},
		"a subset that is gone":             {abc, map[string]time.Time{"x": start}, nil, spread.Actions{Schedulable: well}},
		"subsets are never skipped":         {never, nil, []spread.PodState{late, soon}, spread.Actions{Schedulable: well, Waits: waits{"a": 1}, Again: 20 * time.Second}},
		"subsets are no longer skipped":     {never, since(time.Second), nil, spread.Actions{Schedulable: well, Recover: []string{"a"}}},
		"a spread that is not adaptive":     {fixed, since(time.Second), []spread.PodState{late, ago("r", "b", time.Hour), ago("s", "b", time.Hour)}, spread.Actions{Waits: waits{"a": 1, "b": 2}}},
		"a fixed spread waits":              {fixed, nil, []spread.PodState{soon}, spread.Actions{Again: 20 * time.Second}},
		"a removed subset of a fixed one":   {fixed, nil, []spread.PodState{ago("p", "gone", time.Hour), ago("q", "", time.Hour)}, spread.Actions{}},
		"a spread with one subset":          {adaptive(of(inZone("a", -1))), nil, []spread.PodState{late}, spread.Actions{Schedulable: sub{"a": true}, Waits: waits{"a": 1}}},
		"a spread without subsets, somehow": {adaptive(of()), nil, []spread.PodState{late}, spread.Actions{Schedulable: sub{}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := spread.Adapt(spread.AdaptInput{Spread: tc.spread, Since: tc.since, Pods: tc.pods, Now: start, Complete: true})
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("actions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnePodReturnsAtATime(t *testing.T) {
	away := func(name string, ready bool) spread.PodState {
		return spread.PodState{UID: types.UID(name), Name: name, Revision: "1", Subset: "c", Home: "a", HomeFits: true, Ready: ready}
	}
	at := func(name, subset string, ready bool) spread.PodState {
		return spread.PodState{UID: types.UID(name), Name: name, Revision: "1", Subset: subset, Ready: ready}
	}
	free := map[string]map[string]spread.Slots{"1": {"a": {Pods: 1}}}
	full := map[string]map[string]spread.Slots{"1": {"a": {Pods: 1, Booked: 1}}}
	crowded := away("p", true)
	crowded.HomeFits = false
	unknown := away("p", true)
	unknown.Home = "x"
	for name, tc := range map[string]struct {
		edit  func(*spread.AdaptInput)
		pods  []spread.PodState
		slots map[string]map[string]spread.Slots
		want  types.UID
	}{
		"the first by its name":                  {nil, []spread.PodState{away("q", true), away("p", true), at("a", "a", true)}, free, "p"},
		"one that is not Ready":                  {nil, []spread.PodState{away("p", true), away("q", false)}, free, "q"},
		"pods that are where they belong":        {nil, []spread.PodState{at("p", "c", true), at("q", "b", true)}, free, ""},
		"the subset is full":                     {nil, []spread.PodState{away("p", true)}, full, ""},
		"the subset is full for another version": {nil, []spread.PodState{away("p", true)}, map[string]map[string]spread.Slots{"2": full["1"]}, "p"},
		"no node has room":                       {nil, []spread.PodState{crowded}, free, ""},
		"the subset is gone":                     {nil, []spread.PodState{unknown}, free, ""},
		"a pod is missing":                       {func(in *spread.AdaptInput) { in.Complete = false }, []spread.PodState{away("p", true)}, free, ""},
		"the last one is not Ready":              {nil, []spread.PodState{away("p", true), at("a", "a", false)}, free, ""},
		"a pod of another subset is not Ready":   {nil, []spread.PodState{away("p", true), at("a", "b", false)}, free, "p"},
		"the subset is skipped":                  {func(in *spread.AdaptInput) { in.Since = map[string]time.Time{"a": start} }, []spread.PodState{away("p", true)}, free, ""},
		"the subset recovers now":                {func(in *spread.AdaptInput) { in.Since = map[string]time.Time{"a": start.Add(-time.Hour)} }, []spread.PodState{away("p", true)}, free, ""},
		"a pod is refused":                       {nil, []spread.PodState{away("p", true), ago("x", "b", time.Hour)}, free, ""},
		"pods do not return":                     {func(in *spread.AdaptInput) { in.Spread.Adaptive = &spread.Adaptive{} }, []spread.PodState{away("p", true)}, free, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in := spread.AdaptInput{
				Spread: adaptive(of(inZone("a", 2), inZone("b", 2), inZone("c", -1))), Pods: tc.pods, Slots: tc.slots, Now: start, Complete: true,
			}
			if tc.edit != nil {
				tc.edit(&in)
			}
			if got := spread.Adapt(in).Return; got != tc.want {
				t.Errorf("returns %q, want %q", got, tc.want)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	refused := func(reason string, edit func(*corev1.Pod)) *corev1.Pod {
		p := aPod("p", "")
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.NewTime(start),
		}}
		if edit != nil {
			edit(p)
		}
		return p
	}
	for name, tc := range map[string]struct {
		pod     *corev1.Pod
		ungated time.Time
		want    time.Time
	}{
		"refused":                      {refused(corev1.PodReasonUnschedulable, nil), time.Time{}, start},
		"refused after its gate":       {refused(corev1.PodReasonUnschedulable, nil), start.Add(time.Minute), start.Add(time.Minute)},
		"gated":                        {refused(corev1.PodReasonSchedulingGated, nil), time.Time{}, time.Time{}},
		"gated again":                  {refused(corev1.PodReasonUnschedulable, func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }), time.Time{}, time.Time{}},
		"an error of the scheduler":    {refused(corev1.PodReasonSchedulerError, nil), time.Time{}, time.Time{}},
		"bound since":                  {refused(corev1.PodReasonUnschedulable, func(p *corev1.Pod) { p.Spec.NodeName = "n" }), time.Time{}, time.Time{}},
		"waiting for a preemption":     {refused(corev1.PodReasonUnschedulable, func(p *corev1.Pod) { p.Status.NominatedNodeName = "n" }), time.Time{}, time.Time{}},
		"not looked at by a scheduler": {aPod("p", ""), time.Time{}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := spread.Refused(tc.pod, tc.ungated)
			if !got.Equal(tc.want) || ok == tc.want.IsZero() {
				t.Errorf("refused %v since %v, want %v", ok, got, tc.want)
			}
		})
	}
}

func TestFits(t *testing.T) {
	s := inZone("a", 1)
	s.Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
	pod := aPod("p", "in-c")
	pod.Spec.NodeSelector = map[string]string{zone: "c"} // of the subset that it has now
	cordoned, spot, short := aNode("n1", "a"), aNode("n2", "a"), aNode("n3", "a")
	cordoned.Spec.Unschedulable = true
	spot.Spec.Taints = []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectNoSchedule}}
	for name, tc := range map[string]struct {
		nodes []*corev1.Node
		want  bool
	}{
		"no node":                   {nil, false},
		"a node of another subset":  {[]*corev1.Node{aNode("n0", "c")}, false},
		"a cordoned node":           {[]*corev1.Node{cordoned}, false},
		"a node with too little":    {[]*corev1.Node{short}, false},
		"a node that is tolerated":  {[]*corev1.Node{cordoned, short, spot}, true},
		"a node of the right label": {[]*corev1.Node{aNode("n0", "a")}, true},
	} {
		if got := spread.Fits(s, pod, tc.nodes, func(n *corev1.Node) bool { return n == short }); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Pods that fell back come home when a node of their subset has room. No event of the spread tells that,
// so that the next look comes by itself, until they are home.
func TestRoomIsLookedForWhilePodsAreAway(t *testing.T) {
	abc := adaptive(of(inZone("a", 2), inZone("b", 2), inZone("c", -1)))
	stays := abc
	stays.Adaptive = &spread.Adaptive{Critical: 30 * time.Second, Recovery: time.Minute}
	for name, tc := range map[string]struct {
		spread spread.Spread
		pod    spread.PodState
		again  bool
	}{
		"away, and no node has room": {abc, spread.PodState{Subset: "c", Home: "a", Ready: true}, true},
		"away, and comes home now":   {abc, spread.PodState{Subset: "c", Home: "a", Ready: true, HomeFits: true}, true},
		"at home":                    {abc, spread.PodState{Subset: "a", Home: "a", Ready: true}, false},
		"from a subset that is gone": {abc, spread.PodState{Subset: "c", Home: "x", Ready: true}, false},
		"away, and stays there":      {stays, spread.PodState{Subset: "c", Home: "a", Ready: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got := spread.Adapt(spread.AdaptInput{Spread: tc.spread, Pods: []spread.PodState{tc.pod}, Now: start, Complete: true})
			if again := got.Again > 0 && got.Again <= 10*time.Second; again != tc.again {
				t.Errorf("the next look comes after %s, want one soon: %t", got.Again, tc.again)
			}
		})
	}
}
