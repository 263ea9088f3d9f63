package pin_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

func TestPlanGate(t *testing.T) {
	behind := func(gates ...string) *corev1.Pod {
		return testenv.APod("web-0").With(pin.AnnotationNode, "n1").Gated(gates...).Pod
	}
	nominated := behind(pin.Gate)
	nominated.Status.NominatedNodeName = "n1"
	nameless := behind(pin.Gate)
	delete(nameless.Annotations, pin.AnnotationNode)
	going := behind(pin.Gate)
	going.DeletionTimestamp = &metav1.Time{}
	large := behind(pin.Gate)
	large.Spec.Containers[0].Resources.Requests = testenv.APod("").Asking(9).Spec.Containers[0].Resources.Requests
	claiming := behind(pin.Gate)
	claiming.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device"}}
	grouped := behind(pin.Gate)
	grouped.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{}

	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	fit := testenv.ANode("n1").WithRoom(2, 8).Node
	dead := testenv.ANode("n1").Node
	dead.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule}}
	pausing := func(ago time.Duration) *corev1.Node {
		return testenv.ANode("n1").WithRoom(2, 8).Tainted(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule).
			Saying(corev1.ConditionFalse, now.Add(-ago)).Node
	}
	lingering := testenv.ANode("n1").WithRoom(2, 8).Tainted(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule).Node
	cordoned := testenv.ANode("n1").Node
	cordoned.Spec.Unschedulable = true
	seen := func(ago time.Duration, in pin.GateInput) pin.GateInput {
		in.Since = now.Add(-ago)
		return in
	}
	ahead := behind(pin.Gate) // by its creation, which is of another clock
	ahead.CreationTimestamp = metav1.NewTime(now.Add(-61 * time.Second))
	proven := func(in pin.GateInput) pin.GateInput {
		in.Owned, in.Homes = true, []string{"n1"}
		return in
	}
	other := *testenv.APod("other").Pod

	nominate := pin.GateDecision{Nominate: "n1", Open: true, Reason: pin.ReasonNominated}
	open := pin.GateDecision{Open: true, Reason: pin.ReasonUngated}
	unproven := pin.GateDecision{Open: true, Reason: pin.ReasonUnproven}
	full := pin.GateDecision{Open: true, Reason: pin.ReasonNoRoom}
	leave := pin.GateDecision{Reason: pin.ReasonNotGated}
	listen := pin.GateDecision{Again: 2 * time.Second, Reason: pin.ReasonNodeSilent}
	pause := pin.GateDecision{Again: 2 * time.Second, Reason: pin.ReasonNodePauses}
	look := pin.GateDecision{Again: 250 * time.Millisecond, Reason: pin.ReasonUnproven}
	last := pin.GateDecision{Reason: pin.ReasonOtherGates}
	cases := map[string]struct {
		in   pin.GateInput
		want pin.GateDecision
	}{
		"its node is nominated and the gate opened":        {proven(pin.GateInput{Pod: behind(pin.Gate), Node: fit}), nominate},
		"a cordoned node is nominated: the scheduler sees": {proven(pin.GateInput{Pod: behind(pin.Gate), Node: cordoned}), nominate},
		"a nomination that is there is made again":         {proven(pin.GateInput{Pod: nominated, Node: fit}), nominate},
		"a gate without a node is opened":                  {proven(pin.GateInput{Pod: nameless}), open},
		"a node that is gone is not nominated":             {proven(pin.GateInput{Pod: behind(pin.Gate)}), open},
		"a node that is silent is listened to":             {seen(59*time.Second, proven(pin.GateInput{Pod: behind(pin.Gate), Node: fit, Silent: true})), listen},
		"no pod waits for more than a minute":              {seen(time.Minute, proven(pin.GateInput{Pod: behind(pin.Gate), Node: fit, Silent: true})), nominate},
		"whatever another clock says":                      {proven(pin.GateInput{Pod: ahead, Node: fit, Silent: true}), listen},
		"a node that was found dead is not nominated":      {proven(pin.GateInput{Pod: behind(pin.Gate), Node: dead, Silent: true}), open},
		"a node that says it is not Ready is waited for":   {proven(pin.GateInput{Pod: behind(pin.Gate), Node: pausing(19 * time.Second)}), pause},
		"for twenty seconds":                               {proven(pin.GateInput{Pod: behind(pin.Gate), Node: pausing(20 * time.Second)}), open},
		"and again and again for a minute":                 {seen(time.Minute, proven(pin.GateInput{Pod: behind(pin.Gate), Node: pausing(0)})), open},
		"it is Ready again, and the taint is left":         {seen(59*time.Second, proven(pin.GateInput{Pod: behind(pin.Gate), Node: lingering})), pause},
		"that ends after a minute, too":                    {seen(time.Minute, proven(pin.GateInput{Pod: behind(pin.Gate), Node: lingering})), open},
		"a pod on its way out is left":                     {proven(pin.GateInput{Pod: going, Node: fit}), leave},
		"a pod with gates of others only is left":          {proven(pin.GateInput{Pod: behind("own"), Node: fit}), leave},
		"a pod without a gate is left, named node or not":  {proven(pin.GateInput{Pod: behind(), Node: fit}), leave},

		"the gate of a pod without a workload is opened": {pin.GateInput{Pod: behind(pin.Gate), Homes: []string{"n1"}, Node: fit}, unproven},
		"though other gates are there":                   {pin.GateInput{Pod: behind(pin.Gate, "own"), Homes: []string{"n1"}, Node: fit}, unproven},
		"a node that no fact names is looked for":        {pin.GateInput{Pod: behind(pin.Gate), Owned: true, Homes: []string{"n2"}, Node: fit}, look},
		"whatever a clock that is ahead says":            {pin.GateInput{Pod: ahead, Owned: true, Homes: []string{"n2"}, Node: fit}, look},
		"no fact is waited for longer than five seconds": {seen(5*time.Second, pin.GateInput{Pod: behind(pin.Gate), Owned: true, Homes: []string{"n2"}, Node: fit}), unproven},
		"the same of a pod with other gates":             {seen(5*time.Second, pin.GateInput{Pod: behind(pin.Gate, "own"), Owned: true, Node: fit}), unproven},
		"the gate of a pod with other gates waits":       {proven(pin.GateInput{Pod: behind("own", pin.Gate), Node: fit}), last},
		"for hours": {seen(9*time.Hour, proven(pin.GateInput{Pod: behind(pin.Gate, "own"), Node: fit})), last},
		"a node that is too small is not nominated":       {proven(pin.GateInput{Pod: large, Node: fit}), full},
		"a node with room for one more pod is nominated":  {proven(pin.GateInput{Pod: behind(pin.Gate), Node: fit, Others: []corev1.Pod{other}}), nominate},
		"a node that takes no more pods is not nominated": {proven(pin.GateInput{Pod: behind(pin.Gate), Node: fit, Others: []corev1.Pod{other, other}}), full},
		"a pod that may wait for a claim is not":          {proven(pin.GateInput{Pod: claiming, Node: fit}), open},
		"a pod that may wait for a group is not":          {proven(pin.GateInput{Pod: grouped, Node: fit}), open},
		"a pod that keeps all others off its node is not": {proven(pin.GateInput{Pod: apart(behind(pin.Gate), &metav1.LabelSelector{}), Node: fit}), open},
		"nor one that keeps another namespace off":        {proven(pin.GateInput{Pod: apart(behind(pin.Gate), nil, "default", "other"), Node: fit}), open},
		"a pod that keeps its siblings off its node is":   {proven(pin.GateInput{Pod: apart(behind(pin.Gate), nil, "default"), Node: fit}), nominate},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.in.Now = now; tc.in.Since.IsZero() {
				tc.in.Since = now
			}
			if diff := cmp.Diff(tc.want, pin.PlanGate(tc.in), cmpopts.IgnoreFields(pin.GateDecision{}, "Message")); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// apart keeps a pod off the nodes of the pods in some namespaces.
func apart(pod *corev1.Pod, selector *metav1.LabelSelector, namespaces ...string) *corev1.Pod {
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{}, NamespaceSelector: selector, Namespaces: namespaces, TopologyKey: corev1.LabelHostname,
		}},
	}}
	return pod
}

// A nomination does not outlive the scheduler's verdict on its pod.
func TestPlanGateWithdrawsANomination(t *testing.T) {
	refused := func(never bool, gates ...string) *corev1.Pod {
		pod := testenv.APod("web-0").With(pin.AnnotationNode, "n1").Refused("0/3 nodes are available").Gated(gates...).Pod
		pod.Status.NominatedNodeName = "n1"
		if never {
			pod.Spec.PreemptionPolicy = new(corev1.PreemptNever)
		}
		return pod
	}
	bound, waiting, bare, preempts := refused(true), refused(true), refused(true), refused(true, "own")
	bound.Spec.NodeName = "n2"
	waiting.Status.Conditions = nil
	bare.Status.NominatedNodeName = ""
	preempts.Status.NominatedNodeName = "n2"
	cases := map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"from a pod that was refused and never preempts":      {refused(true), true},
		"from a pod behind gates of others":                   {refused(false, "own"), true},
		"not at once from a pod that may preempt others":      {refused(false), false},
		"not from a pod that has a node":                      {bound, false},
		"not from a pod that the scheduler has not tried yet": {waiting, false},
		"not from a pod without one":                          {bare, false},
		"not from a gated pod that another program nominated": {preempts, false},
		"not from a pod behind our gate":                      {refused(true, pin.Gate), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := pin.PlanGate(pin.GateInput{Pod: tc.pod, Since: now, Now: now}); got.Withdraw != tc.want {
				t.Errorf("decision %+v, want it withdrawn: %t", got, tc.want)
			}
		})
	}
}

// A forged gate costs few looks for facts, and facts that are late by a second cost no pod more
// than as long again.
func TestPlanGateLooksForFactsAFewTimes(t *testing.T) {
	pod := testenv.APod("web-0").With(pin.AnnotationNode, "n1").Gated(pin.Gate).Pod
	looks, waited := 1, time.Duration(0)
	for {
		got := pin.PlanGate(pin.GateInput{Pod: pod, Owned: true, Since: now, Now: now.Add(waited)})
		if got.Open {
			break
		}
		if got.Again <= 0 || got.Again > max(waited, 250*time.Millisecond) {
			t.Fatalf("after %s the next look is in %s", waited, got.Again)
		}
		looks, waited = looks+1, waited+got.Again
	}
	if looks > 8 || waited != 5*time.Second {
		t.Errorf("the pod is looked at %d times in %s, want at most 8 times in 5s", looks, waited)
	}
}

// A nomination does not wait for a scheduler that may not exist, or that takes no nominations away.
func TestPlanGateWithdrawsTheNominationOfAPodThatIsNotPlaced(t *testing.T) {
	now := time.Now()
	nominated := func(scheduler string) *corev1.Pod {
		pod := testenv.APod("web-0").With(pin.AnnotationNode, "n1").Pod
		pod.Spec.SchedulerName, pod.Status.NominatedNodeName = scheduler, "n1"
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated}}
		return pod
	}
	refused, preempts, bound, bare, going := nominated(""), nominated(""), nominated("own"), nominated("own"), nominated("own")
	refused.Status.Conditions[0].Reason, preempts.Status.Conditions[0].Reason = corev1.PodReasonUnschedulable, corev1.PodReasonUnschedulable
	preempts.Status.NominatedNodeName = "n2"
	bound.Spec.NodeName = "n1"
	bare.Status.NominatedNodeName = ""
	going.DeletionTimestamp = &metav1.Time{}
	leave := pin.GateDecision{Reason: pin.ReasonNotGated}
	cases := map[string]struct {
		pod    *corev1.Pod
		waited time.Duration
		want   pin.GateDecision
		ending bool
	}{
		"a pod that was nominated a moment ago is left":      {nominated("own"), time.Second, pin.GateDecision{Again: 5*time.Minute - time.Second, Reason: pin.ReasonUntried}, false},
		"after five minutes without a verdict it is not":     {nominated("own"), 5 * time.Minute, pin.GateDecision{Withdraw: true, Reason: pin.ReasonUntried}, false},
		"a pod of the default scheduler is left":             {nominated(corev1.DefaultSchedulerName), time.Hour, leave, false},
		"a pod that names no scheduler is left":              {nominated(""), time.Hour, leave, false},
		"a pod that was refused has its nomination a little": {refused, time.Second, pin.GateDecision{Again: 29 * time.Second, Reason: pin.ReasonLingers}, false},
		"after half a minute it has not":                     {refused, 30 * time.Second, pin.GateDecision{Withdraw: true, Reason: pin.ReasonLingers}, false},
		"unless another pod ends on the node":                {refused, time.Hour, pin.GateDecision{Again: 30 * time.Second, Reason: pin.ReasonLingers}, true},
		"a pod that preempts elsewhere is left":              {preempts, time.Hour, leave, false},
		"a pod that has a node is left":                      {bound, time.Hour, leave, false},
		"a pod without a nomination is left":                 {bare, time.Hour, leave, false},
		"a pod on its way out is left":                       {going, time.Hour, leave, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := pin.PlanGate(pin.GateInput{Pod: tc.pod, Since: now.Add(-tc.waited), Ending: tc.ending, Now: now})
			if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(pin.GateDecision{}, "Message")); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

// Facts tell where a pod returns, whatever its annotations say.
func TestHomes(t *testing.T) {
	recorded := testenv.APersistentPodState("web").Recorded("web-0", "n1", nil).PersistentPodState
	cases := map[string]struct {
		state   *appsv1beta1.PersistentPodState
		holders []pin.Holder
		want    []string
	}{
		"nothing is known":                 {nil, []pin.Holder{{Node: "n2"}}, nil},
		"the record":                       {recorded, nil, []string{"n1"}},
		"the addresses, without a record":  {testenv.APersistentPodState("web").PersistentPodState, []pin.Holder{{Node: "n2"}}, []string{"n2"}},
		"addresses that prove nothing":     {recorded, []pin.Holder{{Node: "n2"}}, []string{"n1"}},
		"the record of another pod is not": {testenv.APersistentPodState("web").Recorded("web-1", "n1", nil).PersistentPodState, nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, pin.Homes(tc.state, "web-0", tc.holders)); diff != "" {
				t.Errorf("homes (-want +got):\n%s", diff)
			}
		})
	}
}
