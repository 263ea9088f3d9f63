package reconcile_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
)

// What a pod says of itself is no fact: its gate is opened, and its node is not nominated.
func TestAForgedGateIsOpenedWithoutANomination(t *testing.T) {
	node, home := env.Node(t), env.Node(t)
	ns := env.Namespace(t)
	forged := func() testenv.Pod { return testenv.APod("web-0").In(ns).With(pin.AnnotationNode, node.Name) }
	former := testenv.AStatefulSet("web", 1)
	former.UID = "former"
	stranger := recordedPod(t, home.Name)
	deleted := recordedPod(t, node.Name).With(pin.AnnotationNode, node.Name)
	deleted.OwnerReferences[0].UID = "predecessor"
	ofAnother := recordedPod(t, node.Name)
	ofAnother.Name = "web-1"
	m := newManager(t)
	m.start(t, m.nominator())
	cases := map[string]testenv.Pod{
		"of a bare pod":                         forged(),
		"of a workload that does not exist":     forged().OwnedBy(former.StatefulSet),
		"of a workload that was deleted":        deleted,
		"with another node than the recorded":   stranger.With(pin.AnnotationNode, node.Name),
		"of another pod than the recorded one":  ofAnother.With(pin.AnnotationNode, node.Name),
		"of a pod whose annotation was changed": recordedPod(t, home.Name).With(pin.AnnotationNode, "no-such-node"),
	}
	for name, pod := range cases {
		t.Run(name, func(t *testing.T) {
			opened(t, create(t, pod.Gated("example.com/own", pin.Gate)), "", "example.com/own")
			env.Remove(t, pod.Pod)
		})
	}
}

// Nominated pods hold the room of their node. So the room is counted before each
// nomination, also where many pods return at once and the cache shows none of the
// nominations yet.
func TestNominationsNeverExceedTheRoomOfANode(t *testing.T) {
	cases := map[string]struct {
		pods, cpus, there int64 // the room, and how many pods are there already
		asks, want        int
	}{
		"by CPU":                                {110, 8, 1, 2, 3},
		"by their number, if they ask for none": {5, 8, 1, 0, 4},
		"more than the node has":                {110, 8, 0, 9, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			node := testenv.ANode(env.Name("node")).WithRoom(tc.pods, tc.cpus)
			ns := env.Namespace(t)
			env.Create(t, node.Node)
			for i := range tc.there {
				env.Create(t, testenv.APod(fmt.Sprintf("there-%d", i)).In(ns).On(node.Name).Asking(2).Pod)
			}
			set := testenv.AStatefulSet("web", 10).In(ns)
			state := testenv.APersistentPodState("web").In(ns).Prefers(100, hostname)
			var pods []*corev1.Pod
			for i := range 10 {
				pod := testenv.APod(fmt.Sprintf("web-%d", i)).In(ns)
				state.Recorded(pod.Name, node.Name, nil)
				pods = append(pods, pod.Pod)
			}
			env.Create(t, set.StatefulSet, state.PersistentPodState)
			for _, pod := range pods {
				create(t, testenv.Pod{Pod: pod}.OwnedBy(set.StatefulSet).With(pin.AnnotationNode, node.Name).Gated(pin.Gate).Asking(int64(tc.asks)))
			}
			m := newManager(t)
			m.start(t, m.nominator())
			nominated := 0
			for _, pod := range pods {
				testenv.Eventually(t, func() error {
					if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || !pin.Gated(pod) {
						return err
					}
					return fmt.Errorf("pod %s waits", pod.Name)
				})
				if pod.Status.NominatedNodeName != "" {
					nominated++
				}
			}
			if nominated != tc.want {
				t.Errorf("%d of %d pods are nominated, want %d", nominated, len(pods), tc.want)
			}
		})
	}
}

// A pod that never preempts others keeps its nomination when the scheduler refuses it, and
// would hold its room as long as it waits.
func TestANominationIsWithdrawnFromAPodThatIsRefused(t *testing.T) {
	m := newManager(t)
	m.start(t, m.nominator())
	node := env.Node(t)
	pod := recordedPod(t, node.Name).With(pin.AnnotationNode, node.Name).Gated(pin.Gate)
	pod.Spec.PriorityClassName = neverPreempts(t)
	opened(t, create(t, pod), node.Name)
	patchStatus(t, pod.Pod, `{"status":{"conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]}}`)
	opened(t, pod.Pod, "")
}

// patchStatus merges JSON into the status of a pod.
func patchStatus(t *testing.T, pod *corev1.Pod, text string) {
	t.Helper()
	if err := env.Client.Status().Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text))); err != nil {
		t.Fatal(err)
	}
}

// neverPreempts makes a priority class of pods that never preempt others.
func neverPreempts(t *testing.T) string {
	t.Helper()
	class := &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: env.Name("never")}, Value: 0, PreemptionPolicy: new(corev1.PreemptNever),
	}
	env.Create(t, class)
	return class.Name
}
