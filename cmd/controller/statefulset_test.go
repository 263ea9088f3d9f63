package main

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// refusals is how often the controller of StatefulSets is refused a pod until the test goes on. It waits for 82 s then,
// unless it is woken.
const refusals = 14

// play is a StatefulSet with two nodes of its own, and what happens to it.
type play struct {
	shape func(*play) // before the set is made
	// What happens while the replica runs, while it is away, and after it has started again.
	first, away, back func(*testing.T, *play)
	refused           bool // while the replica is away
	want              func(*testing.T, *play)

	set     testenv.StatefulSet
	applied *appsv1.StatefulSet // as its user has it
	nodes   []*corev1.Node
	before  map[string]corev1.Pod // when all pods were Ready
}

// A real controller of StatefulSets, garbage collector, controller of quotas and scheduler are around each outcome of a
// rebuild that users see.
func TestARealStatefulSetControllerRebuildsPods(t *testing.T) {
	plays := map[string]*play{
		"kept after a deletion":            {first: deleted("web-1"), want: kept("web-1")},
		"kept in a rollout":                {first: rolledOut, want: kept("web-0", "web-1", "web-2")},
		"kept when it is scaled up again":  {first: scaledToNone, want: kept("web-0", "web-1", "web-2")},
		"moved from a cordoned node":       {first: drained("web-1"), want: moved("web-1", fit.NodeCordoned)},
		"waits for its required place":     {shape: required, first: drained("web-1"), want: waitsFor("web-1", fit.NodeCordoned)},
		"released from its required place": {shape: releasedSoon, first: drained("web-1"), want: moved("web-1", pin.CauseReleased)},
		"not woken by minReadySeconds":     {shape: slowlyAvailable, want: notWoken},
		"kept when a quota has room again": {first: blockedByQuota("web-1"), want: kept("web-1")},
		"the lowest of an ordered set was refused": {
			shape: ordered, away: deletedBelow("web-0", "web-2"), refused: true, want: both(woken("web-0"), kept("web-0")),
		},
		"the last of a parallel set was refused": {away: deleted("web-2"), refused: true, want: both(woken("web-2"), kept("web-2"))},
		"refused by a closed spread":             {shape: spreadOut, first: closed, away: deleted("web-1"), refused: true, want: woken("web-1")},
		"kept when the set is applied again, and the replica was restarted": {
			first: deletedSet(metav1.DeletePropagationForeground), away: func(*testing.T, *play) {}, back: appliedAgain, want: kept("web-0", "web-1", "web-2"),
		},
		"adopted when the set is applied again": {first: orphaned, want: stayed},
	}
	controller, names := stagePlays(t, plays)
	each := func(part func(*play) func(*testing.T, *play)) {
		for _, name := range names {
			if do := part(plays[name]); do != nil {
				do(t, plays[name])
			}
		}
	}
	finally := func(away bool) {
		for _, name := range names {
			if p := plays[name]; (p.away != nil) == away {
				t.Run(name, func(t *testing.T) { p.want(t, p) })
			}
		}
	}
	each(func(p *play) func(*testing.T, *play) { return p.first })
	finally(false)
	controller.end(t)
	each(func(p *play) func(*testing.T, *play) { return p.away })
	each(func(p *play) func(*testing.T, *play) { return p.untilRefused() })
	controller.start(t)
	controller.waitReady(t)
	each(func(p *play) func(*testing.T, *play) { return p.back })
	finally(true)
}

// stagePlays starts a replica with what is around it in a cluster, and waits until the pods of all plays are Ready and
// recorded. It returns the names of the plays in order.
func stagePlays(t *testing.T, plays map[string]*play) (controller *replica, names []string) {
	t.Helper()
	install(t)
	controller = startReplica(t)
	pointWebhooksAt(t, controller)
	controller.waitReady(t)
	env.StartScheduler(t)
	env.StartControllers(t, "statefulset-controller,garbage-collector-controller,resourcequota-controller")
	names = slices.Sorted(maps.Keys(plays))
	var nodes []*corev1.Node
	for i, name := range names {
		nodes = append(nodes, plays[name].begin(t, fmt.Sprintf("play-%d", i))...)
	}
	startKubelets(t, nodes...)
	for _, name := range names {
		plays[name].await(t)
	}
	return controller, names
}

// end ends a replica as a Deployment does.
func (r *replica) end(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = r.cmd.Wait() // its log tells more
}

// begin makes two nodes, and a set that prefers the nodes of its pods and runs there alone.
func (p *play) begin(t *testing.T, name string) []*corev1.Node {
	t.Helper()
	for _, suffix := range []string{"a", "b"} {
		node := testenv.ANode(name+suffix).Labelled(stage, name).Tainted(stage, corev1.TaintEffectNoSchedule).WithRoom(20, 8).Node
		env.Create(t, node)
		p.nodes = append(p.nodes, node)
	}
	p.set = testenv.AStatefulSet("web", 3).In(env.Namespace(t)).
		With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationPreferredTopology, hostname)
	template := &p.set.Spec.Template
	template.Annotations = map[string]string{reservation.RetainAnnotation: "10"}
	template.Spec.NodeSelector = map[string]string{stage: name}
	template.Spec.Tolerations = []corev1.Toleration{{Key: stage, Operator: corev1.TolerationOpExists}}
	p.set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	if p.shape != nil {
		p.shape(p)
	}
	p.applied = p.set.DeepCopy()
	env.Create(t, p.set.StatefulSet)
	return p.nodes
}

// await waits until all pods are Ready and recorded.
func (p *play) await(t *testing.T) {
	t.Helper()
	p.before = map[string]corev1.Pod{}
	for i := range 3 {
		name := fmt.Sprintf("web-%d", i)
		p.before[name] = *p.ready(t, name, "")
	}
	if _, recorded := p.set.Annotations[appsv1beta1.AnnotationAutoGenerate]; recorded {
		p.recorded(t)
	}
}

// recorded waits until the nodes of all pods are recorded.
func (p *play) recorded(t *testing.T) {
	t.Helper()
	want := map[string]string{}
	for name, pod := range p.before {
		want[name] = pod.Spec.NodeName
	}
	env.RecordedOn(t, p.set, want)
}

// ready waits until a pod is Ready that is not of some UID.
func (p *play) ready(t *testing.T, name string, not types.UID) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	testenv.Eventually(t, func() error {
		err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: p.set.Namespace, Name: name}, pod)
		if err == nil && (pod.UID == not || pod.Status.Phase != corev1.PodRunning) {
			err = fmt.Errorf("%s %s on %q: %+v", name, pod.UID, pod.Spec.NodeName, pod.Status)
		}
		return err
	})
	return pod
}

// gone waits until the pod of the first time is gone.
func (p *play) gone(t *testing.T, name string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var pod corev1.Pod
		err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: p.set.Namespace, Name: name}, &pod)
		if err == nil && pod.UID == p.before[name].UID {
			return fmt.Errorf("%s is there: deleted at %s", name, pod.DeletionTimestamp)
		}
		return client.IgnoreNotFound(err)
	})
}

func (p *play) node(pod string) *corev1.Node {
	return p.nodes[slices.IndexFunc(p.nodes, func(n *corev1.Node) bool { return n.Name == p.before[pod].Spec.NodeName })]
}

// untilRefused waits until pods were refused often, where they should be.
func (p *play) untilRefused() func(*testing.T, *play) {
	if !p.refused {
		return nil
	}
	return func(t *testing.T, p *play) {
		t.Helper()
		p.refusals(t, refusals)
	}
}

// refusals waits until the set was refused pods.
func (p *play) refusals(t *testing.T, want int32) {
	t.Helper()
	testenv.Within(t, 2*time.Minute, func() error {
		var list corev1.EventList
		if err := env.Client.List(t.Context(), &list, client.InNamespace(p.set.Namespace)); err != nil {
			return err
		}
		n := int32(0)
		for _, e := range list.Items {
			if e.Reason == "FailedCreate" && e.InvolvedObject.UID == p.set.UID {
				n += e.Count
			}
		}
		if n < want {
			return fmt.Errorf("pods of %s were refused %d times", p.set.Namespace, n)
		}
		return nil
	})
}
