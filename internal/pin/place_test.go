package pin_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// The required keys are changed while a pod waits. It goes on waiting unless it will be
// held to another place, or to none.
func TestRequiredKeysAreChangedWhileAPodWaits(t *testing.T) {
	n1 := testenv.ANode("n1").Labelled(zone, "a").Cordoned().Node
	cases := map[string]struct {
		keys  []string // required now
		nodes []*corev1.Node
		want  pin.PlaceVerdict
		next  labels.Set // place of the pod that is made then
	}{
		"to a key that its node tells":              {[]string{zone}, []*corev1.Node{n1}, pin.LetGo, labels.Set{zone: "a"}},
		"to one more, which its node tells":         {[]string{hostname, zone}, []*corev1.Node{n1}, pin.Hold, labels.Set{hostname: "n1", zone: "a"}},
		"to a key that no node has any more":        {[]string{zone}, nil, pin.Hold, nil},
		"to a key that its node does not have":      {[]string{"rack"}, []*corev1.Node{n1}, pin.Hold, nil},
		"to none at all":                            {nil, []*corev1.Node{n1}, pin.LetGo, nil},
		"to a key that another node with it is for": {[]string{zone}, []*corev1.Node{testenv.ANode("n2").Labelled(zone, "b").Node}, pin.Hold, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			state := testenv.APersistentPodState("web").Recorded("web-0", "n1", map[string]string{hostname: "n1"})
			state.Spec.RequiredPersistentTopology = nil
			if tc.keys != nil {
				state = state.Requires(tc.keys...)
			}
			in := pin.RecordInput{
				State: state.PersistentPodState, Workload: &workload.Desired{Replicas: 1}, Pods: []corev1.Pod{*unplaced().Pod},
				Retain: func(*corev1.Pod) time.Duration { return 0 }, Now: now, Cluster: tc.nodes, Nodes: map[string]*corev1.Node{},
			}
			for _, node := range tc.nodes {
				in.Nodes[node.Name] = node
			}
			got := pin.Record(in)
			if len(got.Waits) != 1 || got.Waits[0].Decision.Verdict != tc.want {
				t.Errorf("waits %+v, want verdict %v", got.Waits, tc.want)
			}
			state.Status = got.Status
			plan := pin.Plan(pin.Input{Pod: testenv.APod("web-0").Pod, State: state.PersistentPodState, Node: in.Nodes["n1"], Cluster: tc.nodes, Now: now})
			if got := plan.Patch.Annotations[podpatch.AnnotationPlace]; got != tc.next.String() {
				t.Errorf("place of the next pod %q, want %q", got, tc.next)
			}
		})
	}
}

func TestPlanPlace(t *testing.T) {
	n1 := testenv.ANode("n1").Labelled(zone, "a").Node
	n9 := testenv.ANode("n9").Labelled(zone, "a").Cordoned().Node
	onN1, inZone := labels.Set{hostname: "n1"}, labels.Set{zone: "a"}
	since := func(ago time.Duration) *appsv1beta1.Waiting {
		return &appsv1beta1.Waiting{Since: metav1.NewTime(now.Add(-ago)), Reason: pin.ReasonNodeGone}
	}
	// for so long a pod has waited by a constraint, after some time for another reason
	constrained := func(ago time.Duration) *appsv1beta1.Waiting {
		return &appsv1beta1.Waiting{
			Since: metav1.NewTime(now.Add(-time.Hour)), Reason: pin.CauseConstraint, ReasonSince: &metav1.Time{Time: now.Add(-ago)},
		}
	}
	n2 := testenv.ANode("n2").Labelled(zone, "a").Node
	n3 := testenv.ANode("n3").Labelled(zone, "b").Node
	three := []*corev1.Node{n1, n2, n3}
	plane := testenv.ANode("cp").Labelled(zone, "a").Tainted("node-role.kubernetes.io/control-plane", corev1.TaintEffectNoSchedule).Node
	ssd := testenv.ANode("n4").Labelled(zone, "a").Labelled("disk", "ssd").Node
	pressed := testenv.ANode("cp").Labelled(zone, "a").Tainted(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule).Node
	const rest = " preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
	spread := func(n int) string { return fmt.Sprintf("%d node(s) didn't match pod topology spread constraints", n) }
	const (
		other    = "1 node(s) didn't match Pod's node affinity/selector"
		ruled    = "1 node(s) had untolerated taint(s)"
		conflict = "1 node(s) had volume node affinity conflict"
	)
	refusal := func(reasons ...string) string {
		return "0/3 nodes are available: " + strings.Join(reasons, ", ") + "." + rest
	}
	tolerant := testenv.APod("web-0")
	tolerant.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	cases := map[string]struct {
		pod        testenv.Pod // web-0 by default
		place      labels.Set
		after, on  string
		waiting    *appsv1beta1.Waiting
		released   bool
		refusal    string
		nodes      []*corev1.Node
		want       pin.PlaceVerdict
		wantReason string
		wantAgain  time.Duration
	}{
		"a node that seems well is refused by the scheduler": {place: onN1, nodes: []*corev1.Node{n9, n1}, wantReason: pin.CauseNodeRefused},
		"a node that is gone is waited for":                  {place: onN1, wantReason: pin.ReasonNodeGone},
		"a node that is gone is not waited for on request":   {place: onN1, on: "deleted", nodes: []*corev1.Node{n9}, want: pin.LetGo, wantReason: pin.ReasonNodeGone},
		"a node that is there is not a deleted one":          {place: onN1, on: "deleted", nodes: []*corev1.Node{testenv.ANode("n1").NotReady().Node}, wantReason: pin.ReasonNodeNotReady},
		"a node that is not Ready":                           {place: onN1, on: "cordoned,not-ready", nodes: []*corev1.Node{testenv.ANode("n1").NotReady().Node}, want: pin.LetGo, wantReason: pin.ReasonNodeNotReady},
		"a node that is unreachable by its taint alone": {
			place: onN1, on: "not-ready", want: pin.LetGo, wantReason: pin.ReasonNodeTainted,
			nodes: []*corev1.Node{testenv.ANode("n1").Tainted(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute).Node},
		},
		"a node that is cordoned": {place: onN1, on: "cordoned", nodes: []*corev1.Node{testenv.ANode("n1").Cordoned().Node}, want: pin.LetGo, wantReason: pin.ReasonNodeCordoned},
		"a node that is out of service and silent": {
			place: onN1, on: "out-of-service", want: pin.LetGo, wantReason: pin.ReasonNodeNotReady,
			nodes: []*corev1.Node{testenv.ANode("n1").NotReady().Tainted(corev1.TaintNodeOutOfService, corev1.TaintEffectNoExecute).Node},
		},
		"a node that is silent, but not out of service": {
			place: onN1, on: "out-of-service", wantReason: pin.ReasonNodeNotReady,
			nodes: []*corev1.Node{testenv.ANode("n1").NotReady().Node},
		},
		"a node with another taint": {
			place: onN1, on: "tainted", want: pin.LetGo, wantReason: pin.ReasonNodeTainted,
			nodes: []*corev1.Node{testenv.ANode("n1").Tainted("k", corev1.TaintEffectNoSchedule).Node},
		},
		"a taint that the pod tolerates is no reason": {
			pod: tolerant, place: onN1, on: "tainted,cordoned", wantReason: pin.CauseNodeRefused,
			nodes: []*corev1.Node{testenv.ANode("n1").Cordoned().Tainted("k", corev1.TaintEffectNoSchedule).Node},
		},
		"one good node of a zone is enough to wait":   {place: inZone, on: "cordoned", nodes: []*corev1.Node{n9, n1}, wantReason: pin.CauseNodeRefused},
		"a zone of cordoned nodes is not waited for":  {place: inZone, on: "cordoned", nodes: []*corev1.Node{n9}, want: pin.LetGo, wantReason: pin.ReasonNodeCordoned},
		"the time begins with the waiting":            {place: onN1, after: "10m", wantReason: pin.ReasonNodeGone, wantAgain: 10 * time.Minute},
		"the time runs on":                            {place: onN1, after: "10m", waiting: since(9 * time.Minute), wantReason: pin.ReasonNodeGone, wantAgain: time.Minute},
		"the time is over":                            {place: onN1, after: "10m", waiting: since(10 * time.Minute), want: pin.LetGo, wantReason: pin.ReasonNodeGone},
		"the time is over, whatever the reason":       {place: onN1, after: "10m", waiting: since(time.Hour), nodes: []*corev1.Node{n1}, want: pin.LetGo, wantReason: pin.CauseNodeRefused},
		"without a time there is none that is over":   {place: onN1, waiting: since(1000 * time.Hour), wantReason: pin.ReasonNodeGone},
		"a wrong annotation releases no pod":          {place: onN1, after: "10", on: "gone", waiting: since(time.Hour), wantReason: pin.ReasonNodeGone},
		"a pod once released stays so until it Ready": {place: onN1, released: true, nodes: []*corev1.Node{n1}, want: pin.LetGo, wantReason: pin.CauseNodeRefused},
		"a place that is not required any more":       {place: labels.Set{"rack": "r1"}, want: pin.LetGo, wantReason: pin.ReasonNotRequired},
		"a place of which one key is not recorded":    {place: labels.Set{hostname: "n1", "disk": "d1"}, wantReason: pin.ReasonNodeGone},
		"a zone that a constraint forbids is given a minute": {
			place: inZone, nodes: three, refusal: refusal(other, spread(2)), wantReason: pin.CauseConstraint, wantAgain: time.Minute,
		},
		"a zone that a constraint forbids is not waited for": {
			place: inZone, nodes: three, refusal: refusal(other, spread(2)), waiting: constrained(time.Minute),
			want: pin.LetGo, wantReason: pin.CauseConstraint,
		},
		"a constraint does not wait for a longer time of the user's": {
			place: inZone, nodes: three, refusal: refusal(other, spread(2)), waiting: constrained(time.Minute), after: "2h",
			want: pin.LetGo, wantReason: pin.CauseConstraint,
		},
		"a constraint that was met a moment ago is given a minute of its own": {
			place: inZone, nodes: three, refusal: refusal(other, spread(2)), waiting: since(time.Hour),
			wantReason: pin.CauseConstraint, wantAgain: time.Minute,
		},
		"which is what is left of it": {
			place: inZone, nodes: three, refusal: refusal(other, spread(2)), waiting: constrained(20 * time.Second), after: "2h",
			wantReason: pin.CauseConstraint, wantAgain: 40 * time.Second,
		},
		"unless the time of the user's is over before": {
			place: inZone, nodes: three, refusal: refusal(other, spread(2)), waiting: constrained(20 * time.Second), after: "10m",
			want: pin.LetGo, wantReason: pin.CauseConstraint,
		},
		"a zone of which every node has a constraint of its own": {
			place: inZone, nodes: three, refusal: refusal(other, spread(1), "1 node(s) didn't match PersistentVolume's node affinity"),
			waiting: constrained(time.Minute), want: pin.LetGo, wantReason: pin.CauseConstraint,
		},
		"a zone that is not the volume's": {
			place: inZone, nodes: three, refusal: refusal(other, "2 node(s) didn't satisfy plugin(s) [VolumeBinding]"),
			waiting: constrained(time.Minute), want: pin.LetGo, wantReason: pin.CauseConstraint,
		},
		"a node of another zone that is cordoned says nothing": {
			place: inZone, nodes: []*corev1.Node{n1, n2, testenv.ANode("n3").Labelled(zone, "b").Cordoned().Node},
			refusal: refusal("1 node(s) were unschedulable", spread(2)), waiting: constrained(time.Minute), want: pin.LetGo, wantReason: pin.CauseConstraint,
		},
		"a zone that the pod's own selector rules out, since its nodes changed, is not waited for": {
			pod: asking(matching(in("disk", "ssd"))), place: inZone, nodes: three,
			refusal: refusal("3 node(s) didn't match Pod's node affinity/selector"), waiting: constrained(time.Minute),
			want: pin.LetGo, wantReason: pin.CauseConstraint,
		},
		"until they have changed back": {
			place: inZone, nodes: three, refusal: refusal("3 node(s) didn't match Pod's node affinity/selector"),
			waiting: constrained(time.Minute), wantReason: pin.CauseNodeRefused,
		},
		"a node of the zone that the selector rules out is none to wait for": {
			pod: asking(matching(in("disk", "ssd"))), place: inZone, nodes: []*corev1.Node{n3, n9, ssd},
			refusal: refusal("1 node(s) were unschedulable", other, conflict), waiting: constrained(time.Minute),
			want: pin.LetGo, wantReason: pin.CauseConstraint,
		},
		"a node that was cordoned when it was refused": {
			place: onN1, nodes: []*corev1.Node{n1, n2}, refusal: refusal("1 node(s) were unschedulable", other),
			waiting: constrained(time.Minute), wantReason: pin.CauseNodeRefused,
		},
		"a node that could not be reached when it was refused": {
			place: onN1, nodes: []*corev1.Node{n1, n2}, refusal: refusal("1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }", other),
			waiting: constrained(time.Minute), wantReason: pin.CauseNodeRefused,
		},
		"one node of the zone was cordoned when a constraint forbade the other": {
			place: inZone, nodes: three, refusal: refusal("1 node(s) were unschedulable", other, conflict),
			waiting: constrained(time.Minute), wantReason: pin.CauseNodeRefused,
		},
		"a node with the volume was cordoned when all others were passed over": {
			place: inZone, nodes: three, refusal: refusal("1 node(s) were unschedulable", "2 node(s) didn't satisfy plugin(s) [VolumeBinding]"),
			waiting: constrained(time.Minute), wantReason: pin.CauseNodeRefused,
		},
		"a zone of which nothing was counted is waited for": {
			place: inZone, nodes: three, refusal: "no nodes available to schedule pods", waiting: since(time.Hour), wantReason: pin.CauseNodeRefused,
		},
		"a zone with a full node is waited for": {
			place: inZone, nodes: three, refusal: refusal("1 Insufficient cpu", other, spread(1)),
			waiting: since(time.Hour), wantReason: pin.CauseNodeRefused,
		},
		"a zone whose full node has the volume is waited for": {
			place: inZone, nodes: three, refusal: refusal("1 Insufficient cpu", "2 node(s) didn't satisfy plugin(s) [VolumeBinding]"),
			waiting: since(time.Hour), wantReason: pin.CauseNodeRefused,
		},
		"a zone with a cordoned node is waited for": {
			place: inZone, nodes: []*corev1.Node{n1, n3, n9}, refusal: refusal("1 node(s) were unschedulable", other, spread(1)),
			waiting: since(time.Hour), wantReason: pin.CauseNodeRefused,
		},
		"a node of the zone that is not for the pod is none to wait for": {
			place: inZone, nodes: []*corev1.Node{n1, n3, plane}, refusal: refusal(ruled, other, conflict),
			waiting: constrained(time.Minute), want: pin.LetGo, wantReason: pin.CauseConstraint,
		},
		"a node of the zone with a taint that passes is one to wait for": {
			place: inZone, nodes: []*corev1.Node{n1, n3, pressed}, refusal: refusal(ruled, other, conflict),
			waiting: since(time.Hour), wantReason: pin.CauseNodeRefused,
		},
		"a node of the zone that is not Ready is one to wait for": {
			place: inZone, nodes: []*corev1.Node{n1, n3, testenv.ANode("n8").Labelled(zone, "a").NotReady().Node}, refusal: refusal(ruled, other, conflict),
			waiting: since(time.Hour), wantReason: pin.CauseNodeRefused,
		},
		"nor does it hide the fate of the others":        {place: inZone, on: "cordoned", nodes: []*corev1.Node{n9, plane}, want: pin.LetGo, wantReason: pin.ReasonNodeCordoned},
		"a zone of nothing but such nodes is waited for": {place: inZone, nodes: []*corev1.Node{n3, plane}, refusal: refusal(ruled, other), waiting: since(time.Hour), wantReason: pin.ReasonNodeTainted},
		"a zone with a node that the scheduler has not seen is waited for": {
			place: inZone, nodes: append(three, testenv.ANode("n4").Labelled(zone, "a").Node), refusal: refusal(other, spread(2)),
			waiting: since(time.Hour), wantReason: pin.CauseNodeRefused,
		},
		"what the scheduler says of preemption is no constraint": {
			place: inZone, nodes: three, refusal: "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: " + spread(3) + ".",
			waiting: since(time.Hour), wantReason: pin.CauseNodeRefused,
		},
		"a place that is not the recorded one": {place: labels.Set{hostname: "n7"}, want: pin.LetGo, wantReason: pin.ReasonNotRequired},
	}
	reasons := map[string]bool{}
	for name, tc := range cases {
		reasons[tc.wantReason] = true
		t.Run(name, func(t *testing.T) {
			state := testenv.APersistentPodState("web").Requires(hostname, zone, "disk").Recorded("web-0", "n1", home)
			for key, value := range map[string]string{pin.AnnotationReleaseAfter: tc.after, pin.AnnotationReleaseOn: tc.on} {
				if value != "" {
					metav1.SetMetaDataAnnotation(&state.ObjectMeta, key, value)
				}
			}
			record := state.Status.PodStates["web-0"]
			record.Waiting = tc.waiting
			if tc.released {
				record.ReleasedAt = &metav1.Time{Time: now}
			}
			if tc.pod.Pod == nil {
				tc.pod = testenv.APod("web-0")
			}
			got := pin.PlanPlace(pin.PlaceInput{
				Pod: tc.pod.Pod, Place: tc.place, State: state.PersistentPodState, Record: record, Refusal: tc.refusal, Nodes: tc.nodes, Now: now,
			})
			if got.Verdict != tc.want || got.Reason != tc.wantReason || got.Again != tc.wantAgain {
				t.Errorf("decision %+v, want verdict %v, reason %s, again %s", got, tc.want, tc.wantReason, tc.wantAgain)
			}
			if got.Verdict == pin.Hold && (got.Message == "" || got.Remedy == "") {
				t.Errorf("decision %+v does not say what to do", got)
			}
		})
	}
	if got, want := slices.Sorted(slices.Values(pin.PlaceReasons)), slices.Sorted(maps.Keys(reasons)); !slices.Equal(got, want) {
		t.Errorf("PlaceReasons are %q, and these are given: %q", got, want)
	}
}

// TestAWaitFitsIntoAnEvent has the longest names of a node and of a state.
func TestAWaitFitsIntoAnEvent(t *testing.T) {
	w := pin.Wait{Pod: testenv.APod("web-0").Pod, Decision: pin.PlaceDecision{Message: strings.Repeat("n", 600), Remedy: strings.Repeat("n", 800)}}
	if n := len(w.String()); n != 1024 {
		t.Errorf("%d bytes, want as many as the API server takes", n)
	}
}

// TestARemedyIsACommand holds a pod to a node that cannot take it. On call one copies what helps.
func TestARemedyIsACommand(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes []*corev1.Node
		want  []string
	}{
		"cordoned": {[]*corev1.Node{testenv.ANode("n1").Cordoned().Node}, []string{"kubectl uncordon n1", "limpet.dev/leave-on=cordoned"}},
		"dead": {[]*corev1.Node{testenv.ANode("n1").NotReady().Node}, []string{
			"if it is dead, kubectl taint node n1 node.kubernetes.io/out-of-service=:NoExecute, and Kubernetes removes its pods",
			"limpet.dev/leave-on=out-of-service",
		}},
		"gone": {nil, []string{"limpet.dev/leave-on=deleted"}},
		"full": {[]*corev1.Node{testenv.ANode("n1").Node}, []string{"make room there", "limpet.dev/leave-after=10m"}},
	} {
		t.Run(name, func(t *testing.T) {
			state := testenv.APersistentPodState("web").In("shop").Requires(hostname).Recorded("web-0", "n1", map[string]string{hostname: "n1"}).PersistentPodState
			got := pin.PlanPlace(pin.PlaceInput{Pod: testenv.APod("web-0").In("shop").Pod, Place: labels.Set{hostname: "n1"}, State: state, Nodes: tc.nodes, Now: now})
			for _, want := range append(tc.want, "kubectl -n shop annotate persistentpodstate web ") {
				if !strings.Contains(got.Remedy, want) {
					t.Errorf("remedy %q lacks %q", got.Remedy, want)
				}
			}
		})
	}
}
