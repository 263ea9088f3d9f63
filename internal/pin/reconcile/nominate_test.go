package reconcile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	controller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// opened waits until a pod is behind no gate of ours, with its node nominated, and no
// other gates than those left.
func opened(t *testing.T, pod *corev1.Pod, node string, left ...string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		var gates []string
		for _, g := range pod.Spec.SchedulingGates {
			gates = append(gates, g.Name)
		}
		if !slices.Equal(gates, left) || pod.Status.NominatedNodeName != node {
			return fmt.Errorf("gates %v, nominated %q", gates, pod.Status.NominatedNodeName)
		}
		return nil
	})
}

// recordedPod begins the first pod of a StatefulSet of its own, with a record of a node.
func recordedPod(t *testing.T, node string) testenv.Pod {
	t.Helper()
	set := testenv.AStatefulSet("web", 1).In(env.Namespace(t))
	env.Create(t, set.StatefulSet, testenv.APersistentPodState("web").In(set.Namespace).Prefers(100, hostname).Recorded("web-0", node, nil).PersistentPodState)
	return testenv.APod("web-0").In(set.Namespace).OwnedBy(set.StatefulSet)
}

// create makes a pod that a nominator may change at once, when that knows all else: it opens a gate once.
func create(t *testing.T, pod testenv.Pod) *corev1.Pod {
	t.Helper()
	if knows != nil {
		env.Known(t, knows, &corev1.NodeList{}, &appsv1.StatefulSetList{}, &appsv1beta1.PersistentPodStateList{}, &limpetv1alpha1.IPReservationList{})
	}
	if err := env.Client.Create(t.Context(), pod.Pod); err != nil {
		t.Fatal(err)
	}
	env.RemoveAtEnd(t, pod.Pod)
	return pod.Pod
}

// gatedFor makes a pod behind gates that returns to a node.
func gatedFor(t *testing.T, node string, gates ...string) *corev1.Pod {
	t.Helper()
	return create(t, recordedPod(t, node).With(pin.AnnotationNode, node).Gated(gates...))
}

// ungate opens a gate, as another program does with its own.
func ungate(t *testing.T, pod *corev1.Pod, gate string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"schedulingGates":[{"$patch":"delete","name":%q}]}}`, gate)
	if err := env.Client.Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
}

func TestANominationOpensOurGate(t *testing.T) {
	m := newManager(t)
	m.start(t, m.nominator())
	node := env.Node(t)
	opened(t, gatedFor(t, node.Name, pin.Gate), node.Name)
	opened(t, gatedFor(t, "no-such-node", pin.Gate), "")
}

// A namespace asks for its pods, and the PersistentPodState of a workload is gone until it is generated again. Meanwhile a
// node that keeps the addresses of a pod is its home, for the webhook as well as behind the gate.
func TestAGateOpensBeforeTheStateIsGenerated(t *testing.T) {
	m := newManager(t)
	nominator := m.nominator()
	nominator.Clock = clocktesting.NewFakePassiveClock(time.Now()) // the seconds for facts that are late do not end
	m.start(t, nominator)
	node, ns := env.Node(t), env.Namespace(t)
	set := testenv.AStatefulSet("web", 1).In(ns)
	env.Create(t, set.StatefulSet)
	env.Annotate(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, keep, "10m")
	env.Known(t, m.GetClient(), &corev1.NamespaceList{})
	before := testenv.APod("web-0").In(ns).On(node.Name).At("10.0.0.5").Pod
	before.UID = "before"
	env.Create(t, testenv.AReservation(before, time.Now()))
	pod := create(t, testenv.APod("web-0").In(ns).OwnedBy(set.StatefulSet).With(reservation.RetainAnnotation, "10").With(pin.AnnotationNode, node.Name).Gated(pin.Gate))
	opened(t, pod, node.Name)
}

// A pod whose other gates stay closed would hold room on its node without ever running.
func TestOurGateIsOpenedLast(t *testing.T) {
	m := newManager(t)
	m.start(t, m.nominator())
	node := env.Node(t)
	pod := gatedFor(t, node.Name, "example.com/own", pin.Gate)
	opened(t, gatedFor(t, node.Name, pin.Gate), node.Name) // which came after it
	opened(t, pod, "", "example.com/own", pin.Gate)
	ungate(t, pod, "example.com/own")
	opened(t, pod, node.Name)
}

func TestAGateThatWasLeftClosedIsOpenedByTheNextReplica(t *testing.T) {
	node := env.Node(t)
	pod := gatedFor(t, node.Name, pin.Gate)
	m := newManager(t)
	m.start(t, m.nominator())
	opened(t, pod, node.Name)
}

// While no leader is there, a replica that does not lead opens gates, a little later.
func TestAReplicaThatDoesNotLeadOpensGates(t *testing.T) {
	m := newManager(t)
	m.elected = make(chan struct{})
	m.start(t, m.nominator())
	node := env.Node(t)
	opened(t, gatedFor(t, node.Name, pin.Gate), node.Name)
}

// silentSince makes a node whose kubelet renewed its lease last at a time.
func silentSince(t *testing.T, renewed time.Time) testenv.Node {
	t.Helper()
	node := env.Node(t)
	env.Create(t, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node.Name},
		Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(40)), RenewTime: &metav1.MicroTime{Time: renewed}},
	})
	return node
}

// renew renews the lease of a node, and for so long that it is not overdue again while the test runs.
func renew(t *testing.T, node string, at time.Time) {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node}}
	env.Patch(t, lease, fmt.Sprintf(`{"spec":{"leaseDurationSeconds":3600,"renewTime":%q}}`, at.UTC().Format(metav1.RFC3339Micro)))
}

// Pods wait until it is known whether their silent nodes are dead, and keep no other pod
// waiting.
func TestAPodWaitsForTheVerdictOnASilentNode(t *testing.T) {
	m := newManager(t)
	nominator := m.nominator()
	nominator.Clock = clocktesting.NewFakePassiveClock(time.Now()) // the minute for the verdict does not end
	m.start(t, nominator)
	overdue := time.Now().Add(-16 * time.Second)
	alive, dead, wrong := silentSince(t, overdue), silentSince(t, overdue), silentSince(t, overdue.Add(-time.Hour)) // by its clock
	returns, moves, late := gatedFor(t, alive.Name, pin.Gate), gatedFor(t, dead.Name, pin.Gate), gatedFor(t, wrong.Name, pin.Gate)
	well := env.Node(t)
	opened(t, gatedFor(t, well.Name, pin.Gate), well.Name) // which came after them
	env.Told(t, moves, pin.ReasonNodeSilent, dead.Name)
	env.Told(t, late, pin.ReasonNodeSilent, wrong.Name)
	for _, pod := range []*corev1.Pod{returns, moves, late} {
		if env.Read(t, client.ObjectKeyFromObject(pod), pod); !pin.Gated(pod) {
			t.Errorf("%s/%s does not wait", pod.Namespace, pod.Name)
		}
	}

	renew(t, alive.Name, time.Now())
	opened(t, returns, alive.Name)
	renew(t, wrong.Name, overdue.Add(10*time.Second-time.Hour))
	opened(t, late, wrong.Name)
	env.Patch(t, dead.Node, fmt.Sprintf(`{"spec":{"taints":[{"key":%q,"effect":"NoSchedule"}]}}`, corev1.TaintNodeUnreachable))
	opened(t, moves, "")
}

// The minute for the verdict begins when a replica sees the pod behind no other gate. The clock of the replica may be
// ahead.
func TestTheMinuteForTheVerdictCountsFromWhatWasSeen(t *testing.T) {
	m := newManager(t)
	later := clocktesting.NewFakePassiveClock(time.Now().Add(2 * time.Minute))
	nominator := m.nominator()
	nominator.Clock = later
	m.start(t, nominator)
	node := silentSince(t, time.Now().Add(-16*time.Second))
	young, old := gatedFor(t, node.Name, pin.Gate), gatedFor(t, node.Name, pin.Gate, "example.com/own")
	env.Patch(t, old, `{"spec":{"schedulingGates":[{"name":"limpet.dev/pin"}]}}`)
	for _, pod := range []*corev1.Pod{young, old} {
		env.Told(t, pod, pin.ReasonNodeSilent, node.Name)
		if env.Read(t, client.ObjectKeyFromObject(pod), pod); !pin.Gated(pod) {
			t.Errorf("%s/%s does not wait", pod.Namespace, pod.Name)
		}
	}
	later.SetTime(later.Now().Add(time.Minute))
	opened(t, young, node.Name)
	opened(t, old, node.Name)
}

// A pod is told once that it waits for a silent node, by the replica that leads.
func TestASilentNodeIsToldOnce(t *testing.T) {
	at := clocktesting.NewFakePassiveClock(time.Now())
	node := silentSince(t, at.Now().Add(-16*time.Second))
	pod := gatedFor(t, node.Name, pin.Gate)
	elected, told := make(chan struct{}), events.NewFakeRecorder(100)
	m := newManager(t)
	m.start(t)
	nominator := &controller.Nominator{
		Client: m.GetClient(), Workloads: m.reader, Clock: at, Elected: elected, Events: told,
		Leases: &controller.LeaseMonitor{Live: env.Client, Clock: at},
	}
	look := func(after time.Duration, want int) {
		t.Helper()
		at.SetTime(at.Now().Add(after))
		shown(t, m.GetClient(), pod)
		if _, err := nominator.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}); err != nil {
			t.Fatal(err)
		}
		said := heard(told)
		if len(said) != want || want > 0 && (!strings.Contains(said[0], pin.ReasonNodeSilent) || !strings.Contains(said[0], node.Name)) {
			t.Errorf("events %q, want %d of a silent node", said, want)
		}
	}
	look(3*time.Second, 0) // the other replica tells
	close(elected)
	look(time.Second, 1)
	look(time.Second, 0)
	env.Remove(t, pod)
	again := testenv.APod(pod.Name).In(pod.Namespace).With(pin.AnnotationNode, node.Name).Gated(pin.Gate).Pod
	again.OwnerReferences = pod.OwnerReferences
	env.Create(t, again)
	pod = again
	look(time.Second, 1)
	look(time.Hour, 0)
	opened(t, again, node.Name)
}

// shown waits until a cache shows a pod.
func shown(t *testing.T, c client.Reader, pod *corev1.Pod) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var seen corev1.Pod
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), &seen); err != nil || seen.UID == pod.UID {
			return err
		}
		return fmt.Errorf("the cache shows pod %s, want %s", seen.UID, pod.UID)
	})
}

// cachedAs reports whether a cache shows a pod in the version that was read last.
func cachedAs(t *testing.T, c client.Reader, pod *corev1.Pod) error {
	t.Helper()
	var seen corev1.Pod
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), &seen); err != nil || seen.ResourceVersion == pod.ResourceVersion {
		return err
	}
	return fmt.Errorf("the cache shows version %s, want %s", seen.ResourceVersion, pod.ResourceVersion)
}

// heard are the events since the last call.
func heard(told *events.FakeRecorder) []string {
	var said []string
	for {
		select {
		case text := <-told.Events:
			said = append(said, text)
		default:
			return said
		}
	}
}
