package pin_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// unstarted is a pod that the scheduler has bound to node n1, as the API server shows it.
func unstarted() testenv.Pod {
	pod := testenv.APod("web-0").On("n1")
	pod.Status.Phase = corev1.PodPending
	return pod
}

func TestWhatIsUnstarted(t *testing.T) {
	at := metav1.NewTime(now)
	with := func(change func(*corev1.Pod)) *corev1.Pod {
		pod := unstarted().Pod
		change(pod)
		return pod
	}
	cases := map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"bound":                          {unstarted().Pod, true},
		"bound, and being deleted":       {with(func(p *corev1.Pod) { p.DeletionTimestamp = &at }), true},
		"not bound":                      {with(func(p *corev1.Pod) { p.Spec.NodeName = "" }), false},
		"the kubelet pulls its images":   {with(func(p *corev1.Pod) { p.Status.StartTime = &at }), false},
		"it has an address":              {unstarted().At("10.0.0.1").Pod, false},
		"it runs":                        {testenv.APod("web-0").On("n1").Ready().Pod, false},
		"the kubelet has refused to run": {with(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := pin.Unstarted(tc.pod); got != tc.want {
				t.Errorf("Unstarted() = %t, want %t", got, tc.want)
			}
		})
	}
}

// A pod that Limpet pinned and that may run elsewhere goes if its node was silent when the pod was bound.
func TestAPinnedPodGoesFromANodeThatNeverHeardOfIt(t *testing.T) {
	bound := func(pod testenv.Pod, at time.Time) testenv.Pod {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
		return pod
	}
	pinned := func() testenv.Pod { return bound(unstarted().With(pin.AnnotationNode, "n1"), now) }
	silent, fit := testenv.ANode("n1").NotReady().Node, testenv.ANode("n2").Node
	before := map[string]time.Time{"n1": now.Add(-time.Second)}
	for name, tc := range map[string]struct {
		pod     testenv.Pod
		renewed map[string]time.Time
		nodes   []*corev1.Node
		want    pin.PlaceVerdict
	}{
		"it was bound after the last renewal":     {pinned(), before, []*corev1.Node{silent, fit}, pin.LetGo},
		"most nodes are silent":                   {pinned(), before, []*corev1.Node{silent}, pin.Hold},
		"the kubelet lived when it was bound":     {pinned(), map[string]time.Time{"n1": now}, []*corev1.Node{silent, fit}, pin.Hold},
		"the lease is not known":                  {pinned(), nil, []*corev1.Node{silent, fit}, pin.Hold},
		"since when it is bound is not known":     {unstarted().With(pin.AnnotationNode, "n1"), before, []*corev1.Node{silent, fit}, pin.Hold},
		"the scheduler chose the node by itself":  {bound(unstarted(), now), before, []*corev1.Node{silent, fit}, pin.Hold},
		"it asked for another node":               {bound(unstarted().With(pin.AnnotationNode, "n2"), now), before, []*corev1.Node{silent, fit}, pin.Hold},
		"its address is required":                 {pinned().With(reservation.ModeAnnotation, "required"), before, []*corev1.Node{silent, fit}, pin.Hold},
		"its place is required":                   {pinned().With(podpatch.AnnotationPlace, hostname+"=n1"), before, []*corev1.Node{silent, fit}, pin.Hold},
		"its address is preferred, and not asked": {pinned().With(reservation.ModeAnnotation, "preferred"), before, []*corev1.Node{silent, fit}, pin.LetGo},
		"the kubelet has just reported its start": {bound(testenv.APod("web-0").On("n1").With(pin.AnnotationNode, "n1").At("10.0.0.1"), now), before, []*corev1.Node{silent, fit}, pin.Hold},
	} {
		t.Run(name, func(t *testing.T) {
			got := pin.Record(pin.RecordInput{
				State: testenv.APersistentPodState("web").Prefers(100, hostname).Recorded("web-0", "n1", home).PersistentPodState, Workload: &workload.Desired{Replicas: 1},
				Pods: []corev1.Pod{*tc.pod.Pod}, Retain: func(*corev1.Pod) time.Duration { return 0 }, Now: now.Add(time.Minute),
				Cluster: tc.nodes, Nodes: map[string]*corev1.Node{"n1": silent}, Renewed: tc.renewed,
			})
			verdict := pin.Hold
			for _, w := range got.Waits {
				verdict = w.Decision.Verdict
			}
			if verdict != tc.want {
				t.Errorf("verdict %d, want %d: %+v", verdict, tc.want, got.Waits)
			}
		})
	}
}

func TestAPodWhoseNodeFellSilentBeforeItsStart(t *testing.T) {
	silent, fit := testenv.ANode("n1").NotReady().Node, testenv.ANode("n2").Node
	reports := testenv.ANode("n1").Node // its kubelet lives, and says that it is not ready
	reports.Status.Conditions[0].Status = corev1.ConditionFalse
	cases := map[string]struct {
		on       string // the annotation limpet.dev/leave-on
		required bool   // the pod must be on n1
		nodes    []*corev1.Node
		verdict  pin.PlaceVerdict
		waits    bool
		says     string
		released bool // the next pod may run elsewhere
	}{
		"the pod stays by default":                 {"", false, []*corev1.Node{silent, fit}, pin.Hold, true, "limpet.dev/leave-on=unstarted", false},
		"other triggers are no consent":            {"not-ready", false, []*corev1.Node{silent, fit}, pin.Hold, true, "node.kubernetes.io/out-of-service", false},
		"other triggers stay":                      {"deleted", false, []*corev1.Node{silent, fit}, pin.Hold, true, "--overwrite persistentpodstate web limpet.dev/leave-on=deleted,unstarted", false},
		"its user agreed":                          {"unstarted", false, []*corev1.Node{silent, fit}, pin.LetGo, true, "deleted by force", false},
		"most nodes are silent":                    {"unstarted", false, []*corev1.Node{silent, testenv.ANode("n2").NotReady().Node, testenv.ANode("n3").Node}, pin.Hold, true, "most nodes", false},
		"the only node is silent":                  {"unstarted", false, []*corev1.Node{silent}, pin.Hold, true, "most nodes", false},
		"it must be there":                         {"unstarted", true, []*corev1.Node{silent, fit}, pin.Hold, true, "no other node of its required place", false},
		"it must be there while that node is well": {"unstarted,not-ready", true, []*corev1.Node{silent, fit}, pin.LetGo, true, "deleted by force", true},
		"the kubelet lives":                        {"unstarted", false, []*corev1.Node{reports, fit}, pin.Hold, false, "", false},
		"the node is well":                         {"unstarted", false, []*corev1.Node{testenv.ANode("n1").Node, fit}, pin.Hold, false, "", false},
		"the node is gone":                         {"unstarted", false, []*corev1.Node{fit}, pin.Hold, false, "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state, pod := testenv.APersistentPodState("web").Prefers(100, hostname), unstarted()
			if tc.required {
				state = testenv.APersistentPodState("web").Requires(hostname)
				pod = pod.With(podpatch.AnnotationPlace, hostname+"=n1").With(appsv1beta1.AnnotationInjected, "web")
			}
			state = state.Recorded("web-0", "n1", map[string]string{hostname: "n1"})
			if tc.on != "" {
				metav1.SetMetaDataAnnotation(&state.ObjectMeta, pin.AnnotationReleaseOn, tc.on)
			}
			in := pin.RecordInput{
				State: state.PersistentPodState, Workload: &workload.Desired{Replicas: 1}, Pods: []corev1.Pod{*pod.Pod},
				Retain: func(*corev1.Pod) time.Duration { return 0 }, Now: now, Cluster: tc.nodes, Nodes: map[string]*corev1.Node{},
			}
			for _, n := range tc.nodes {
				in.Nodes[n.Name] = n
			}
			got := pin.Record(in)
			record := got.Status.PodStates["web-0"]
			c := meta.FindStatusCondition(got.Status.Conditions, appsv1beta1.ConditionWaiting)
			if !tc.waits {
				if len(got.Waits) > 0 || record.Waiting != nil {
					t.Errorf("waits %+v, record %+v, want no wait", got.Waits, record)
				}
				return
			}
			if len(got.Waits) != 1 || !got.Waits[0].Changed || got.Waits[0].Decision.Verdict != tc.verdict || !strings.Contains(got.Waits[0].String(), tc.says) {
				t.Fatalf("waits %+v, want verdict %d that says %q", got.Waits, tc.verdict, tc.says)
			}
			if held := c != nil && c.Status == metav1.ConditionTrue && c.Reason == pin.ReasonNotStarted; held != (tc.verdict == pin.Hold) {
				t.Errorf("condition %+v", c)
			}
			if released := record.ReleasedAt != nil; released != tc.released || record.NodeName != "n1" {
				t.Errorf("record %+v, want its node, and released %t", record, tc.released)
			}
			in.State.Status = got.Status
			if again := pin.Record(in); again.Waits[0].Changed {
				t.Error("the wait is told a second time")
			}
			in.Pods[0] = *testenv.APod("web-0").On("n1").Ready().Pod
			if after := pin.Record(in); len(after.Waits) > 0 || after.Status.PodStates["web-0"].Waiting != nil {
				t.Errorf("after its start: %+v", after)
			}
		})
	}
}
