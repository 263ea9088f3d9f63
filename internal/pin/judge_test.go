package pin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

const homeIPs = "10.0.1.5,fd00:1::5"

func TestJudge(t *testing.T) {
	before := appsv1beta1.PodState{UID: "first", NodeName: "n1", IPs: homeIPs, RetainSeconds: 600}
	unasked := before
	unasked.RetainSeconds = 0
	older := before
	older.UID = ""
	returned := func(uid types.UID, node string, ips ...string) testenv.Pod {
		pod := testenv.APod("web-0").On(node).Ready().At(ips...).
			With(appsv1beta1.AnnotationInjected, "web").With(pin.AnnotationNode, "n1")
		pod.UID = uid
		return pod
	}
	home, elsewhere := returned("next", "n1", "10.0.1.5", "fd00:1::5"), func() testenv.Pod { return returned("next", "n2", "10.0.2.7") }
	lost := returned("next", "n1", "10.0.1.9", "fd00:1::9")
	unpinned := elsewhere()
	unpinned.Annotations = nil
	zonal := elsewhere()
	delete(zonal.Annotations, pin.AnnotationNode)
	ranged := testenv.ANode("n1")
	ranged.Spec.PodCIDRs = []string{"10.0.1.8/29", "fd00:1::/64"}

	cases := map[string]struct {
		pod     testenv.Pod
		before  appsv1beta1.PodState
		node    *corev1.Node
		gone    time.Duration
		taken   string
		want    appsv1beta1.Outcome // "" when there is nothing to judge
		because string
	}{
		"the recorded pod itself is no rebuild":                  {returned("first", "n1", "10.0.1.5", "fd00:1::5"), before, testenv.ANode("n1").Node, 0, "", "", ""},
		"a record without a UID tells nothing":                   {elsewhere(), older, nil, 0, "", "", ""},
		"the same node and addresses are kept":                   {home, before, testenv.ANode("n1").Node, time.Minute, "", appsv1beta1.Kept, ""},
		"kept is kept even after the time":                       {home, before, testenv.ANode("n1").Node, time.Hour, "", appsv1beta1.Kept, ""},
		"a new sandbox of the same pod counts if it lost":        {returned("first", "n1", "10.0.1.9"), before, testenv.ANode("n1").Node, 0, "", appsv1beta1.Lost, pin.CauseNotHeld},
		"a moment without addresses is no rebuild":               {returned("first", "n1"), before, testenv.ANode("n1").Node, 0, "", "", ""},
		"other addresses that the pod did not ask to keep":       {lost, unasked, testenv.ANode("n1").Node, 0, "", appsv1beta1.Kept, ""},
		"the same addresses that the pod did not ask to keep":    {home, unasked, testenv.ANode("n1").Node, 0, "", appsv1beta1.Kept, ""},
		"another node, without a retention request":              {elsewhere(), unasked, testenv.ANode("n1").Cordoned().Node, 0, "", appsv1beta1.Moved, pin.ReasonNodeCordoned},
		"a rebuilt sandbox with an address that was not asked":   {returned("first", "n1", "10.0.1.9"), unasked, testenv.ANode("n1").Node, 0, "", appsv1beta1.Kept, ""},
		"other addresses after their time":                       {lost, before, testenv.ANode("n1").Node, 10 * time.Minute, "", appsv1beta1.Lost, pin.CauseExpired},
		"other addresses within their time":                      {lost, before, testenv.ANode("n1").Node, 9 * time.Minute, "", appsv1beta1.Lost, pin.CauseForced},
		"other addresses that another pod has":                   {lost, before, testenv.ANode("n1").Node, 9 * time.Minute, "shop/cart-1", appsv1beta1.Lost, pin.CauseReclaimed},
		"other addresses that another pod has, after their time": {lost, before, testenv.ANode("n1").Node, time.Hour, "shop/cart-1", appsv1beta1.Lost, pin.CauseExpired},
		"other addresses when the end of the pod was not seen":   {lost, before, testenv.ANode("n1").Node, 0, "", appsv1beta1.Lost, pin.CauseNotHeld},
		"other addresses because the node's range changed":       {lost, before, ranged.Node, 0, "", appsv1beta1.Lost, pin.CauseRangeChanged},
		"a node that is gone":                                    {elsewhere(), before, nil, 0, "", appsv1beta1.Moved, pin.ReasonNodeGone},
		"a node that is not ready":                               {elsewhere(), before, testenv.ANode("n1").NotReady().Node, 0, "", appsv1beta1.Moved, pin.ReasonNodeNotReady},
		"a node that is cordoned":                                {elsewhere(), before, testenv.ANode("n1").Cordoned().Node, 0, "", appsv1beta1.Moved, pin.ReasonNodeCordoned},
		"a node that is tainted":                                 {elsewhere(), before, testenv.ANode("n1").Tainted("k", corev1.TaintEffectNoSchedule).Node, 0, "", appsv1beta1.Moved, pin.ReasonNodeTainted},
		"a node that was cordoned when the pod was created":      {elsewhere().With(pin.AnnotationUnpinned, pin.ReasonNodeCordoned), before, testenv.ANode("n1").Node, 0, "", appsv1beta1.Moved, pin.ReasonNodeCordoned},
		"a pod that asks for another place":                      {elsewhere().With(pin.AnnotationUnpinned, pin.ReasonPodElsewhere), before, testenv.ANode("n1").Node, 0, "", appsv1beta1.Moved, pin.ReasonPodElsewhere},
		"a reason that is not one of ours is not counted as one": {elsewhere().With(pin.AnnotationUnpinned, "x"), before, testenv.ANode("n1").Node, 0, "", appsv1beta1.Moved, pin.CauseNodeRefused},
		"a pod that was created without the webhook":             {unpinned, before, testenv.ANode("n1").Node, 0, "", appsv1beta1.Moved, pin.CauseNotPinned},
		"a pod that asked for a zone only":                       {zonal, before, testenv.ANode("n1").Node, 0, "", appsv1beta1.Moved, pin.CauseSameTopology},
		"a pod that was sent to where a later life had been": {
			elsewhere().With(pin.AnnotationNode, "n2").With(pin.AnnotationRecalled, "n2"), before, testenv.ANode("n1").Node, 0, "",
			appsv1beta1.Moved, pin.CauseRecalled,
		},
		"a pod that was sent to the node that is recorded by now": {
			elsewhere().With(pin.AnnotationRecalled, "n1"), before, testenv.ANode("n1").Node, 0, "", appsv1beta1.Moved, pin.CauseNodeRefused,
		},
		"a node that the scheduler refused though it looked well": {elsewhere(), before, testenv.ANode("n1").Node, 0, "", appsv1beta1.Moved, pin.CauseNodeRefused},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := pin.RebuildInput{Pod: tc.pod.Pod, Before: tc.before, Node: tc.node, Now: now}
			in.Taken.Namespace, in.Taken.Name, _ = strings.Cut(tc.taken, "/")
			if tc.gone > 0 {
				in.Gone = now.Add(-tc.gone)
			}
			got := pin.Judge(in)
			if got == nil {
				got = &appsv1beta1.Rebuild{}
			}
			if got.Outcome != tc.want || got.Cause != tc.because {
				t.Errorf("%s because of %q (%s), want %s because of %q", got.Outcome, got.Cause, got.Message, tc.want, tc.because)
			}
			told := got.Outcome == appsv1beta1.Kept && got.From.IPs != got.To.IPs // but not judged
			if (got.Message != "") != (told || got.Cause != "") {
				t.Errorf("cause %q has message %q", got.Cause, got.Message)
			}
		})
	}
}

// A pod lost its address because its node began a new state, and the pod had it before, and ended before or
// just after.
func TestALossByANewState(t *testing.T) {
	pod := testenv.APod("web-0").On("n1").Ready().At("10.0.1.9", "fd00:1::9")
	pod.UID = "next"
	begun := now.Add(-10 * time.Minute)
	cases := map[string]struct {
		since    time.Time
		recorded time.Duration // before the state was begun; 0 for not at all
		gone     time.Time
		taken    string
		want     string
	}{
		"the end of the pod was not seen":             {since: begun, recorded: time.Hour, want: pin.CauseStateReplaced},
		"the pod was drained before":                  {since: begun, recorded: time.Hour, gone: begun.Add(-5 * time.Minute), want: pin.CauseStateReplaced},
		"its object is deleted when the node is back": {since: begun, recorded: time.Hour, gone: begun.Add(20 * time.Second), want: pin.CauseStateReplaced},
		"another pod has the free address":            {since: begun, recorded: time.Hour, taken: "cart-1", want: pin.CauseStateReplaced},
		"it ran on with the new state":                {since: begun, recorded: time.Hour, gone: begun.Add(5 * time.Minute), want: pin.CauseForced},
		"it started with the new state":               {since: begun, recorded: -time.Minute, want: pin.CauseNotHeld},
		"when it started is not recorded":             {since: begun, want: pin.CauseNotHeld},
		"the node does not say":                       {recorded: time.Hour, want: pin.CauseNotHeld},
		"the pod was away for too long":               {since: begun, recorded: time.Hour, gone: now.Add(-2 * time.Hour), want: pin.CauseExpired},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := pin.RebuildInput{
				Pod: pod.Pod, Before: appsv1beta1.PodState{UID: "first", NodeName: "n1", IPs: homeIPs, RetainSeconds: 3600},
				Node: testenv.ANode("n1").Node, Taken: types.NamespacedName{Name: tc.taken}, Gone: tc.gone, StateSince: tc.since, Now: now,
			}
			if tc.recorded != 0 {
				in.Before.RecordedAt = &metav1.Time{Time: begun.Add(-tc.recorded)}
			}
			if got := pin.Judge(in); got == nil || got.Outcome != appsv1beta1.Lost || got.Cause != tc.want {
				t.Errorf("judged %+v, want it lost by %s", got, tc.want)
			}
		})
	}
}

// A pod that was required to be home and is not is told why nothing held it there, whatever
// became of the node since.
func TestJudgeOfARequiredPlace(t *testing.T) {
	before := appsv1beta1.PodState{UID: "first", NodeName: "n1"}
	cordoned := testenv.ANode("n1").Cordoned().Node
	free := testenv.APod("web-0").On("n2").Ready()
	released := testenv.APod("web-0").On("n2").Ready().With(appsv1beta1.AnnotationInjected, "web").With(pin.AnnotationUnpinned, pin.ReasonNodeCordoned)
	late := testenv.APod("web-0").On("n2").Ready().With(appsv1beta1.AnnotationInjected, "web")
	well := testenv.ANode("n1").Node
	cases := map[string]struct {
		pod     testenv.Pod
		node    *corev1.Node
		outside bool
		waited  bool // and was released
		want    string
	}{
		"created without the webhook":                            {free, well, true, false, pin.CauseNotPinned},
		"created without the webhook, and its node is cordoned":  {free, cordoned, true, false, pin.CauseNotPinned},
		"created without the webhook, and its node is gone":      {free, nil, true, false, pin.CauseNotPinned},
		"not outside: it would not have gone to a cordoned node": {free, cordoned, false, false, pin.ReasonNodeCordoned},
		"released at once from a cordoned node":                  {released, cordoned, true, false, pin.ReasonNodeCordoned},
		"released after a while":                                 {late, well, true, true, pin.CauseReleased},
		"released after a while from a cordoned node":            {released, cordoned, true, true, pin.CauseReleased},
		"released, and created without the webhook":              {free, well, true, true, pin.CauseReleased},
		"released, and in its place all the same":                {late, well, false, true, pin.CauseSameTopology},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := before
			if tc.waited {
				before.ReleasedAt = &metav1.Time{Time: now}
			}
			got := pin.Judge(pin.RebuildInput{Pod: tc.pod.Pod, Before: before, Node: tc.node, OutsideRequired: tc.outside, Now: now})
			if got == nil || got.Outcome != appsv1beta1.Moved || got.Cause != tc.want {
				t.Errorf("judged %+v, want it moved because of %s", got, tc.want)
			}
		})
	}
}

// A pod that asks for no address is kept in the place that it asks for: the node, or every
// node with the same labels. A pod with a retention request is kept on its node alone.
func TestAPodIsJudgedByThePlaceThatItAsksFor(t *testing.T) {
	const zone = corev1.LabelTopologyZone
	zonal := func(retain int32) appsv1beta1.PodState {
		return appsv1beta1.PodState{
			UID: "first", NodeName: "n1", IPs: "10.0.1.5", RetainSeconds: retain, NodeTopologyLabels: map[string]string{zone: "a", hostname: "n1"},
		}
	}
	forgotten := zonal(0)
	forgotten.NodeTopologyLabels = nil
	cases := map[string]struct {
		state  testenv.PersistentPodState
		before appsv1beta1.PodState
		zone   string
		want   appsv1beta1.Outcome
	}{
		"another node of the required zone":                      {testenv.APersistentPodState("web").Requires(zone), zonal(0), "a", appsv1beta1.Kept},
		"another node of the preferred zone":                     {testenv.APersistentPodState("web").Prefers(100, zone), zonal(0), "a", appsv1beta1.Kept},
		"another zone":                                           {testenv.APersistentPodState("web").Prefers(100, zone), zonal(0), "b", appsv1beta1.Moved},
		"another node, of which the zone alone is required":      {testenv.APersistentPodState("web").Requires(zone).Prefers(100, hostname), zonal(0), "a", appsv1beta1.Moved},
		"another node of the zone, without the reserved address": {testenv.APersistentPodState("web").Requires(zone), zonal(600), "a", appsv1beta1.Moved},
		"a place of which nothing was recorded":                  {testenv.APersistentPodState("web").Requires(zone), forgotten, "a", appsv1beta1.Moved},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := testenv.APod("web-0").On("n2").Ready().At("10.0.2.7").With(appsv1beta1.AnnotationInjected, "web")
			pod.UID = "next"
			tc.state.Status.PodStates = map[string]appsv1beta1.PodState{"web-0": tc.before}
			got := pin.Record(pin.RecordInput{
				State: tc.state.PersistentPodState, Workload: &workload.Desired{Replicas: 1}, Pods: []corev1.Pod{*pod.Pod},
				Nodes:  map[string]*corev1.Node{"n2": testenv.ANode("n2").Labelled(zone, tc.zone).Node},
				Retain: func(*corev1.Pod) time.Duration { return 0 }, Now: now,
			}).Rebuilds
			if len(got) != 1 || got[0].Outcome != tc.want || (got[0].Outcome == appsv1beta1.Kept) == (got[0].Cause != "") {
				t.Errorf("judged %+v, want %s", got, tc.want)
			}
		})
	}
}

// A pod goes and comes back: the counters, the last rebuild, and the time that it was
// away, which spans several decisions.
func TestRecordCountsRebuilds(t *testing.T) {
	state := testenv.APersistentPodState("web").Prefers(100, hostname).PersistentPodState
	at := func(uid types.UID, ips ...string) []corev1.Pod {
		pod := testenv.APod("web-0").On("n1").Ready().At(ips...)
		pod.UID = uid
		return []corev1.Pod{*pod.Pod}
	}
	in := pin.RecordInput{
		State: state, Workload: &workload.Desired{Replicas: 1},
		Nodes:  map[string]*corev1.Node{"n1": testenv.ANode("n1").Node},
		Retain: func(*corev1.Pod) time.Duration { return time.Minute }, Now: now,
	}
	steps := []struct {
		pods  []corev1.Pod
		after time.Duration
		want  *appsv1beta1.Rebuilds
	}{
		{pods: at("a", "10.0.1.5")},
		{after: time.Second},
		{pods: at("b", "10.0.1.5"), after: time.Second, want: &appsv1beta1.Rebuilds{Kept: 1}},
		{pods: at("b", "10.0.1.5"), after: time.Second, want: &appsv1beta1.Rebuilds{Kept: 1}},
		{after: 40 * time.Second, want: &appsv1beta1.Rebuilds{Kept: 1}},
		{after: 40 * time.Second, want: &appsv1beta1.Rebuilds{Kept: 1}},
		{pods: at("c", "10.0.1.6"), after: 40 * time.Second, want: &appsv1beta1.Rebuilds{Kept: 1, Lost: 1}},
	}
	var last []appsv1beta1.Rebuild
	for i, step := range steps {
		in.Pods, in.Now = step.pods, in.Now.Add(step.after)
		got := pin.Record(in)
		state.Status, last = got.Status, got.Rebuilds
		counted := got.Status.Rebuilds.DeepCopy()
		if counted != nil {
			counted.Last = nil
		}
		if diff := cmp.Diff(step.want, counted); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
	}
	if len(last) != 1 || last[0].Cause != pin.CauseExpired {
		t.Fatalf("last rebuild %+v, want one that lost its address because its time was over", last)
	}
	if diff := cmp.Diff(&last[0], state.Status.Rebuilds.Last); diff != "" {
		t.Errorf("last rebuild in the status (-want +got):\n%s", diff)
	}
}

// Of three pods that come back at once, each has its outcome in its record, until it is rebuilt again.
func TestEachPodHasTheOutcomeOfItsLastRebuild(t *testing.T) {
	state := testenv.APersistentPodState("web").Prefers(100, hostname).PersistentPodState
	ready := func(name, uid, node, ip string) corev1.Pod {
		pod := testenv.APod(name).On(node).Ready().At(ip)
		pod.UID = types.UID(uid)
		return *pod.Pod
	}
	look := func(pods ...corev1.Pod) map[string]appsv1beta1.PodState {
		state.Status = pin.Record(pin.RecordInput{
			State: state, Workload: &workload.Desired{Replicas: 3}, Pods: pods, Retain: func(*corev1.Pod) time.Duration { return time.Hour }, Now: now,
			Nodes: map[string]*corev1.Node{"n1": testenv.ANode("n1").Node, "n2": testenv.ANode("n2").Node},
		}).Status
		return state.Status.PodStates
	}
	first := look(ready("web-0", "a", "n1", "10.0.1.1"), ready("web-1", "b", "n1", "10.0.1.2"), ready("web-2", "c", "n1", "10.0.1.3"))
	if r := first["web-0"]; r.Outcome != "" || r.From != nil {
		t.Errorf("a pod that was not rebuilt: %+v", r)
	}
	after := look(ready("web-0", "a2", "n1", "10.0.1.1"), ready("web-1", "b2", "n2", "10.0.2.2"), ready("web-2", "c2", "n1", "10.0.1.9"))
	for name, want := range map[string]appsv1beta1.PodState{
		"web-0": {Outcome: appsv1beta1.Kept},
		"web-1": {Outcome: appsv1beta1.Moved, Cause: pin.CauseNotPinned, From: &appsv1beta1.Place{NodeName: "n1", IPs: "10.0.1.2"}},
		"web-2": {Outcome: appsv1beta1.Lost, Cause: pin.CauseNotHeld, From: &appsv1beta1.Place{NodeName: "n1", IPs: "10.0.1.3"}},
	} {
		got := appsv1beta1.PodState{Outcome: after[name].Outcome, Cause: after[name].Cause, From: after[name].From}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if again := look(ready("web-1", "b2", "n2", "10.0.2.2")); again["web-1"].Outcome != appsv1beta1.Moved || again["web-0"].Outcome != appsv1beta1.Kept {
		t.Errorf("later: %+v", again)
	}
	if back := look(ready("web-1", "b3", "n2", "10.0.2.2"))["web-1"]; back.Outcome != appsv1beta1.Kept || back.Cause != "" || back.From != nil {
		t.Errorf("rebuilt once more: %+v, want it kept", back)
	}
}

// The users of a namespace are told the names of its pods, and of no other ones.
func TestJudgeNamesNoPodOfAnotherNamespace(t *testing.T) {
	before := appsv1beta1.PodState{UID: "first", NodeName: "n1", IPs: homeIPs, RetainSeconds: 600}
	pod := testenv.APod("web-0").In("shop").On("n1").Ready().At("10.0.1.9", "fd00:1::9")
	pod.UID = "next"
	for taken, want := range map[types.NamespacedName]string{
		{Namespace: "shop", Name: "cart-1"}:          "pod cart-1 got the address when no other was left",
		{Namespace: "payroll", Name: "payroll-db-0"}: "a pod of another namespace got the address when no other was left",
	} {
		got := pin.Judge(pin.RebuildInput{Pod: pod.Pod, Before: before, Node: testenv.ANode("n1").Node, Taken: taken, Now: now, Gone: now.Add(-time.Minute)})
		if got == nil || got.Message != want {
			t.Errorf("%s: %+v, want %q", taken, got, want)
		}
	}
}
