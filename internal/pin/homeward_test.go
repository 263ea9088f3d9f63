package pin_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// homebound is a workload whose pod was Ready on n1 and keeps its address there, as one Recording
// after the other sees it.
type homebound struct {
	in pin.RecordInput
}

func newHomebound(after string) *homebound {
	state := testenv.APersistentPodState("web").Prefers(100, hostname).PersistentPodState
	if after != "" {
		state.Annotations = map[string]string{pin.AnnotationReturnAfter: after}
	}
	state.Status.PodStates = map[string]appsv1beta1.PodState{
		"web-0": {UID: "first", NodeName: "n1", IPs: "10.0.1.5", RetainSeconds: 3600, NodeTopologyLabels: map[string]string{hostname: "n1"}},
	}
	return &homebound{pin.RecordInput{
		State: state, Workload: &workload.Desired{Replicas: 1}, Retain: func(*corev1.Pod) time.Duration { return time.Hour }, Now: now,
		Nodes: map[string]*corev1.Node{"n1": testenv.ANode("n1").Cordoned().Node, "n2": testenv.ANode("n2").Node, "n3": testenv.ANode("n3").Node},
	}}
}

// see records the pod as it is after a while, and offers the way home if there is one.
func (h *homebound) see(after time.Duration, pods ...testenv.Pod) pin.Recording {
	h.in.Now, h.in.Pods, h.in.Homeward = h.in.Now.Add(after), nil, ""
	for _, p := range pods {
		h.in.Pods = append(h.in.Pods, *p.Pod)
	}
	if found := pin.ReturnCandidates(h.in); len(found) > 0 {
		h.in.Homeward = found[0].Name
	}
	got := pin.Record(h.in)
	h.in.State.Status = got.Status
	return got
}

func (h *homebound) home() *appsv1beta1.Home { return h.in.State.Status.PodStates["web-0"].Home }

func life(uid types.UID, node, ip string) testenv.Pod {
	pod := testenv.APod("web-0").On(node).Ready().At(ip).With(appsv1beta1.AnnotationInjected, "web").With(pin.AnnotationNode, "n1").
		With(pin.AnnotationMayReturn, "n1")
	pod.UID = uid
	return pod
}

// A drain sends a pod to another node. When the node has been able to take the pod for the time
// that its user names, the pod returns once, and is told as kept.
func TestAPodReturnsAfterADrain(t *testing.T) {
	h := newHomebound("5m")
	away := life("second", "n2", "10.0.2.7")
	if got := h.see(0, away); got.Returning != nil || h.home() == nil || h.home().NodeName != "n1" || h.home().FitSince != nil {
		t.Fatalf("home %+v, want n1, which does not take the pod yet", h.home())
	}
	h.in.Nodes["n1"] = testenv.ANode("n1").Node
	if got := h.see(time.Second, away); got.Returning != nil || h.home().FitSince == nil || got.Again == 0 || got.Again > 5*time.Minute {
		t.Fatalf("home %+v, again %s; want a time since which n1 takes the pod", h.home(), got.Again)
	}
	if got := h.see(4*time.Minute, away); got.Returning != nil {
		t.Fatal("the pod returns before its time")
	}
	if got := h.see(time.Minute, away); got.Returning == nil || h.home().ReturningAt == nil {
		t.Fatalf("the pod does not return: home %+v", h.home())
	}
	got := h.see(time.Second, life("third", "n1", "10.0.1.5"))
	if len(got.Rebuilds) != 1 || got.Rebuilds[0].Outcome != appsv1beta1.Kept || h.home() != nil {
		t.Errorf("judged %+v with home %+v, want it kept, and without a further home", got.Rebuilds, h.home())
	}
}

// TestAPodThatFollowsReturns sends a pod home that took its address along. Home keeps what it has lent for the life that it had there.
func TestAPodThatFollowsReturns(t *testing.T) {
	h := newHomebound("5m")
	away := life("second", "n2", "10.0.1.5").With(reservation.ModeAnnotation, "follow")
	h.see(0, away)
	h.in.Nodes["n1"] = testenv.ANode("n1").Node
	h.see(time.Second, away)
	if got := h.see(5*time.Minute, away); got.Returning == nil {
		t.Fatalf("the pod does not return: home %+v", h.home())
	}
	lent := testenv.AReservation(life("first", "n1", "10.0.1.5").Pod, h.in.Now)
	until := metav1.NewTime(h.in.Now.Add(reservation.Forever))
	lent.Status.Until = &until
	if !pin.ReservedAtHome(h.home(), pin.Holders([]limpetv1alpha1.IPReservation{*lent}, h.in.Nodes, h.in.Now), h.in.Now) {
		t.Errorf("home %+v does not keep the address", h.home())
	}
}

// What keeps a pod where it is, although its user asks for the return.
func TestAPodDoesNotReturn(t *testing.T) {
	fit, unready := testenv.ANode("n1").Node, life("second", "n2", "10.0.2.7")
	unready.Status.Conditions = nil
	ending := life("second", "n2", "10.0.2.7")
	ending.DeletionTimestamp = &metav1.Time{Time: now}
	away := life("second", "n2", "10.0.2.7")
	former := life("second", "n2", "10.0.2.7")
	delete(former.Annotations, pin.AnnotationMayReturn)
	cases := map[string]struct {
		after  string
		change func(*homebound) // after the pod has moved
		pods   []testenv.Pod    // when it could return
	}{
		"it was created before its user asked": {"5m", nil, []testenv.Pod{former}},
		"its user does not ask":                {"", nil, []testenv.Pod{away}},
		"a time that is too short":             {"1s", nil, []testenv.Pod{away}},
		"its node is still cordoned":           {"5m", func(h *homebound) { h.in.Nodes["n1"] = testenv.ANode("n1").Cordoned().Node }, []testenv.Pod{away}},
		"its node is gone":                     {"5m", func(h *homebound) { delete(h.in.Nodes, "n1") }, []testenv.Pod{away}},
		"its reservation has ended":            {"5m", func(h *homebound) { h.in.Now = h.in.Now.Add(2 * time.Hour) }, []testenv.Pod{away}},
		"it is not Ready":                      {"5m", nil, []testenv.Pod{unready}},
		"it is being deleted":                  {"5m", nil, []testenv.Pod{ending}},
		"another pod of the set is missing":    {"5m", func(h *homebound) { h.in.Workload.Replicas = 2 }, []testenv.Pod{away}},
		"its workload is gone":                 {"5m", func(h *homebound) { h.in.Workload = nil }, []testenv.Pod{away}},
		"its place is required by now": {"5m", func(h *homebound) {
			h.in.State.Spec.RequiredPersistentTopology = &appsv1beta1.NodeTopologyTerm{Keys: []string{hostname}}
		}, []testenv.Pod{away}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHomebound(tc.after)
			h.see(0, away)
			h.in.Nodes["n1"] = fit
			if tc.change != nil {
				tc.change(h)
			}
			h.see(time.Second, tc.pods...)
			if got := h.see(10*time.Minute, tc.pods...); got.Returning != nil {
				t.Errorf("the pod returns: home %+v", h.home())
			}
		})
	}
}

// A node that flaps, or that does not take the pod after all, is tried once. A pod that moved for
// good, or that asked for no address, has no home to return to.
func TestAPodDoesNotFlap(t *testing.T) {
	away := life("second", "n2", "10.0.2.7")
	t.Run("while the node flaps", func(t *testing.T) {
		h := newHomebound("5m")
		h.see(0, away)
		for range 10 {
			h.in.Nodes["n1"] = testenv.ANode("n1").Node
			h.see(time.Second, away)
			if got := h.see(4*time.Minute, away); got.Returning != nil {
				t.Fatal("the pod returns to a node that is cordoned every four minutes")
			}
			h.in.Nodes["n1"] = testenv.ANode("n1").Cordoned().Node
			h.see(time.Second, away)
		}
	})
	t.Run("when the scheduler refuses the node", func(t *testing.T) {
		h := newHomebound("5m")
		h.see(0, away)
		h.in.Nodes["n1"] = testenv.ANode("n1").Node
		h.see(time.Second, away)
		if got := h.see(5*time.Minute, away); got.Returning == nil {
			t.Fatal("the pod does not return")
		}
		h.see(time.Second, life("third", "n3", "10.0.3.7"))
		if h.home() != nil {
			t.Errorf("home %+v, want none after the attempt", h.home())
		}
	})
	t.Run("when it is rebuilt elsewhere meanwhile", func(t *testing.T) {
		h := newHomebound("5m")
		h.see(0, away)
		h.see(time.Second, life("third", "n3", "10.0.3.7"))
		if h.home() == nil || h.home().NodeName != "n1" || h.home().UID != "first" {
			t.Errorf("home %+v, want the first one", h.home())
		}
	})
	t.Run("when it asks for another place", func(t *testing.T) {
		h := newHomebound("5m")
		h.see(0, away.With(pin.AnnotationUnpinned, pin.ReasonPodElsewhere))
		if h.home() != nil {
			t.Errorf("home %+v, want none", h.home())
		}
	})
	t.Run("when it asked for no address", func(t *testing.T) {
		h := newHomebound("5m")
		record := h.in.State.Status.PodStates["web-0"]
		record.RetainSeconds = 0
		h.in.State.Status.PodStates["web-0"] = record
		h.see(0, life("second", "n2", "10.0.2.7"))
		if h.home() != nil {
			t.Errorf("home %+v, want none", h.home())
		}
	})
}

// A pod may return, and is held back, by its budget for instance. Then its home is cordoned: the pod stays, keeps its home, and
// waits for the whole time again.
func TestAPodStaysWhenItsHomeIsCordonedAgain(t *testing.T) {
	h, away := newHomebound("5m"), life("second", "n2", "10.0.2.7")
	h.see(0, away)
	h.in.Nodes["n1"] = testenv.ANode("n1").Node
	h.see(time.Second, away)
	h.in.Nodes["n1"] = testenv.ANode("n1").Cordoned().Node
	if got := h.see(5*time.Minute, away); got.Returning != nil || h.home() == nil || h.home().FitSince != nil || h.home().ReturningAt != nil {
		t.Errorf("returning %t with home %+v, want the pod to stay, and its home", got.Returning != nil, h.home())
	}
	h.in.Homeward = "web-0" // whatever is offered
	if got := pin.Record(h.in); got.Returning != nil {
		t.Error("the pod returns to a home that does not take it")
	}
}

// One pod returns at a time: the next one when the first is Ready.
func TestPodsReturnInTurn(t *testing.T) {
	state := testenv.APersistentPodState("web").Prefers(100, hostname).PersistentPodState
	state.Annotations = map[string]string{pin.AnnotationReturnAfter: "5m"}
	long := metav1.NewTime(now.Add(-time.Hour))
	state.Status.PodStates = map[string]appsv1beta1.PodState{}
	var pods []corev1.Pod
	for _, name := range []string{"web-0", "web-1", "web-2"} {
		pod := testenv.APod(name).On("n2").Ready().At("10.0.2.7").With(pin.AnnotationMayReturn, "n1")
		pod.UID = types.UID(name)
		pods = append(pods, *pod.Pod)
		state.Status.PodStates[name] = appsv1beta1.PodState{
			UID: pod.UID, NodeName: "n2", IPs: "10.0.2.7", RetainSeconds: 3600,
			Home: &appsv1beta1.Home{NodeName: "n1", UID: "first", Until: metav1.NewTime(now.Add(time.Hour)), FitSince: &long},
		}
	}
	in := pin.RecordInput{
		State: state, Workload: &workload.Desired{Replicas: 3}, Pods: pods, Retain: func(*corev1.Pod) time.Duration { return time.Hour }, Now: now,
		Nodes: map[string]*corev1.Node{"n1": testenv.ANode("n1").Node, "n2": testenv.ANode("n2").Node},
	}
	found := pin.ReturnCandidates(in)
	if len(found) != 3 || found[0].Name != "web-0" {
		t.Fatalf("%d candidates, want all three in order", len(found))
	}
	in.Homeward = found[0].Name
	if got := pin.Record(in); got.Returning == nil || got.Returning.Name != "web-0" {
		t.Errorf("returning %+v, want web-0", got.Returning)
	}
	in.Pods[2].Status.Phase = corev1.PodFailed
	if found := pin.ReturnCandidates(in); len(found) != 0 {
		t.Errorf("%d candidates while a pod has failed", len(found))
	}
	in.Pods[2].Status.Phase = corev1.PodRunning
	in.Pods[0].DeletionTimestamp = &metav1.Time{Time: now}
	if found := pin.ReturnCandidates(in); len(found) != 0 {
		t.Errorf("%d candidates while a pod ends", len(found))
	}
}

// A pod that is created goes home if the home takes it and keeps its addresses.
func TestHomeward(t *testing.T) {
	at := func(until time.Time) *appsv1beta1.PersistentPodState {
		state := testenv.APersistentPodState("web").Prefers(100, hostname).PersistentPodState
		state.Annotations = map[string]string{pin.AnnotationReturnAfter: "5m"}
		state.Status.PodStates = map[string]appsv1beta1.PodState{"web-0": {
			UID: "second", NodeName: "n2", Home: &appsv1beta1.Home{NodeName: "n1", UID: "first", IPs: "10.0.1.5", Until: metav1.NewTime(until)},
		}}
		return state
	}
	unasked := at(now.Add(time.Hour))
	unasked.Annotations = nil
	held := []pin.Holder{{Node: "n1", UID: "first"}}
	cases := map[string]struct {
		state   *appsv1beta1.PersistentPodState
		home    *corev1.Node
		holders []pin.Holder
		want    string
	}{
		"the home keeps its address":      {at(now.Add(time.Hour)), testenv.ANode("n1").Node, held, "n1"},
		"the home is cordoned":            {at(now.Add(time.Hour)), testenv.ANode("n1").Cordoned().Node, held, "n2"},
		"the home is gone":                {at(now.Add(time.Hour)), nil, held, "n2"},
		"the home keeps nothing":          {at(now.Add(time.Hour)), testenv.ANode("n1").Node, nil, "n2"},
		"the home keeps it for another":   {at(now.Add(time.Hour)), testenv.ANode("n1").Node, []pin.Holder{{Node: "n1", UID: "x"}}, "n2"},
		"another node claims to keep it":  {at(now.Add(time.Hour)), testenv.ANode("n1").Node, []pin.Holder{{Node: "n3", UID: "first"}}, "n2"},
		"the time is over":                {at(now.Add(-time.Second)), testenv.ANode("n1").Node, held, "n2"},
		"its user does not ask any more":  {unasked, testenv.ANode("n1").Node, held, "n2"},
		"another node than the home asks": {at(now.Add(time.Hour)), testenv.ANode("n3").Node, held, "n2"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := testenv.APod("web-0").Pod
			got := pin.RecordedNode(pin.Homeward(tc.state, pod, tc.home, tc.holders, now), pod.Name)
			if got != tc.want || pin.RecordedNode(tc.state, pod.Name) != "n2" {
				t.Errorf("the pod goes to %s, want %s", got, tc.want)
			}
		})
	}
}
