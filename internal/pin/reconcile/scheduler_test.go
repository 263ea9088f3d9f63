package reconcile_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	controller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
)

// stage is a taint that keeps the pods of other tests off the nodes of a test.
const stage = "example.com/stage"

func onStage(pod testenv.Pod) testenv.Pod {
	pod.Spec.Tolerations = []corev1.Toleration{{Key: stage, Operator: corev1.TolerationOpExists}}
	return pod
}

// stageNode makes a node with four CPUs for the pods of one test.
func stageNode(t *testing.T, pods int64) testenv.Node {
	t.Helper()
	node := testenv.ANode(env.Name("stage")).Tainted(stage, corev1.TaintEffectNoSchedule).WithRoom(pods, 4)
	env.Create(t, node.Node)
	return node
}

// bound waits until the scheduler has placed a pod.
func bound(t *testing.T, pod *corev1.Pod, node string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || pod.Spec.NodeName == node {
			return err
		}
		return fmt.Errorf("pod %s is on node %q, want %q: %+v", pod.Name, pod.Spec.NodeName, node, pod.Status.Conditions)
	})
}

// A tenant's pods that do not run on a node keep no room there: a real kube-scheduler still
// places the pod of another tenant.
func TestGatedPodsKeepNoRoomFromOthers(t *testing.T) {
	const own = "example.com/own"
	class := neverPreempts(t)
	everybody := &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{}, TopologyKey: hostname,
		}},
	}}
	recorded := func(t *testing.T, node string) testenv.Pod {
		return recordedPod(t, node).With(pin.AnnotationNode, node)
	}
	forged := func(t *testing.T, node string) testenv.Pod {
		return testenv.APod(env.Name("forged")).In(env.Namespace(t)).With(pin.AnnotationNode, node)
	}
	cases := map[string]func(t *testing.T, node string) testenv.Pod{
		"a forged pod that asks for a thousand CPUs": func(t *testing.T, node string) testenv.Pod {
			return forged(t, node).Gated(pin.Gate, own).Asking(1000)
		},
		"forged pods that ask for nothing": func(t *testing.T, node string) testenv.Pod { return forged(t, node).Gated(pin.Gate, own) },
		"a pod of a template with a second gate": func(t *testing.T, node string) testenv.Pod {
			return recorded(t, node).Gated(pin.Gate, own).Asking(4)
		},
		"pods of a template with a second gate that ask for nothing": func(t *testing.T, node string) testenv.Pod {
			return recorded(t, node).Gated(pin.Gate, own)
		},
		"a pod that asks for more than is left and never preempts": func(t *testing.T, node string) testenv.Pod {
			pod := recorded(t, node).Gated(pin.Gate).Asking(4)
			pod.Spec.PriorityClassName = class
			return pod
		},
		"a pod that wants the node for itself and never preempts": func(t *testing.T, node string) testenv.Pod {
			pod := recorded(t, node).Gated(pin.Gate)
			pod.Spec.PriorityClassName, pod.Spec.Affinity = class, everybody
			return pod
		},
		"a pod that wants the node for itself and waits for a claim": func(t *testing.T, node string) testenv.Pod {
			pod := recorded(t, node).Gated(pin.Gate)
			pod.Spec.Affinity = everybody
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "none", ResourceClaimName: new("none")}}
			return pod
		},
	}
	env.StartScheduler(t)
	m := newManager(t)
	m.start(t, m.nominator())
	for name, attack := range cases {
		t.Run(name, func(t *testing.T) {
			node := stageNode(t, 4)
			there := onStage(testenv.APod("there").In(env.Namespace(t)).On(node.Name).Asking(2)) // of the victim
			env.Create(t, there.Pod)
			for range 4 {
				create(t, onStage(attack(t, node.Name)))
			}
			opened(t, gatedFor(t, "no-such-node", pin.Gate), "") // which came after them
			victim := onStage(testenv.APod("victim").In(there.Namespace).Asking(2))
			victim.Spec.NodeSelector = map[string]string{hostname: node.Name}
			bound(t, create(t, victim), node.Name)
		})
	}
}

// Up to Kubernetes 1.36 a scheduler that starts does not learn the nominations of gated
// pods, and gives their room to others. It learns a nomination when the gate is opened.
func TestAPodReturnsThoughTheSchedulerForgotItsNomination(t *testing.T) {
	cases := map[string]bool{ // whether another pod comes before the next replica opens the gate
		"to its room":                          false,
		"elsewhere if its room was taken then": true,
	}
	for name, rival := range cases {
		t.Run(name, func(t *testing.T) {
			home, other := stageNode(t, 10), stageNode(t, 10)
			stop := env.StartScheduler(t)
			pod := onStage(recordedPod(t, home.Name).With(pin.AnnotationNode, home.Name).Gated(pin.Gate).Asking(4))
			pod.Spec.Affinity = prefers(other.Name)
			create(t, pod)
			patchStatus(t, pod.Pod, nomination(home.Name)) // and then this replica is gone
			stop()
			env.StartScheduler(t)
			want := home.Name
			if rival && placedOn(t, home.Name, pod.Namespace) {
				want = other.Name
			}
			m := newManager(t)
			m.start(t, m.nominator())
			bound(t, pod.Pod, want)
		})
	}
}

func nomination(node string) string { return fmt.Sprintf(`{"status":{"nominatedNodeName":%q}}`, node) }

// placedOn reports whether the scheduler places a pod on a node, or refuses to.
func placedOn(t *testing.T, node, namespace string) (placed bool) {
	t.Helper()
	rival := onStage(testenv.APod("rival").In(namespace).Asking(1))
	rival.Spec.NodeSelector = map[string]string{hostname: node}
	create(t, rival)
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(rival.Pod), rival.Pod); err != nil {
			return err
		}
		placed = rival.Spec.NodeName != ""
		if !placed && !refused(rival.Pod) {
			return errors.New("the scheduler has not tried the pod yet")
		}
		return nil
	})
	return placed
}

// refused reports whether the scheduler found no node for a pod.
func refused(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable
	})
}

// The scheduler itself takes the nomination from a pod that it refuses, so that a full node
// keeps no room for the pod. Pods that never preempt others keep their nomination.
func TestTheSchedulerWithdrawsANominationFromAPodThatItRefuses(t *testing.T) {
	env.StartScheduler(t)
	node := stageNode(t, 10)
	for class, want := range map[string]string{"": "", neverPreempts(t): node.Name} {
		pod := onStage(testenv.APod(env.Name("large")).In(env.Namespace(t)).Gated(pin.Gate).Asking(5))
		pod.Spec.PriorityClassName = class
		create(t, pod)
		patchStatus(t, pod.Pod, nomination(node.Name))
		ungate(t, pod.Pod, pin.Gate)
		testenv.Eventually(t, func() error {
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod.Pod), pod.Pod); err != nil {
				return err
			}
			if !refused(pod.Pod) || pod.Status.NominatedNodeName != want {
				return fmt.Errorf("refused %t, nominated %q, want %q", refused(pod.Pod), pod.Status.NominatedNodeName, want)
			}
			return nil
		})
	}
}

// A scheduler without preemption leaves the nomination to a pod that it refuses. The controller takes it away, so that
// the room on the node is there for others.
func TestARefusedPodKeepsNoRoomWithoutPreemption(t *testing.T) {
	env.Since(t, 33, "scheduler that tries pods again at once when a nomination goes")
	env.StartScheduler(t, "DefaultPreemption")
	at, elected := clocktesting.NewFakePassiveClock(time.Now()), make(chan struct{})
	close(elected)
	m := newManager(t)
	m.start(t)
	nominator := &controller.Nominator{
		Client: m.GetClient(), Workloads: m.reader, Clock: at, Elected: elected, Events: events.NewFakeRecorder(100),
		Leases: &controller.LeaseMonitor{Live: env.Client, Clock: at},
	}
	node := stageNode(t, 10)
	pod := onStage(recordedPod(t, node.Name).With(pin.AnnotationNode, node.Name).Gated(pin.Gate).Asking(2))
	there := onStage(testenv.APod("there").In(pod.Namespace).On(node.Name).Asking(2))
	there.Labels = map[string]string{"app": "there"}
	env.Create(t, there.Pod)
	pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{ // which only the scheduler knows of
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: there.Labels}, TopologyKey: hostname,
		}},
	}}
	create(t, pod)
	look := func(want time.Duration) {
		t.Helper()
		testenv.Eventually(t, func() error { return cachedAs(t, m.GetClient(), pod.Pod) })
		result, err := nominator.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod.Pod)})
		if err != nil || result.RequeueAfter != want {
			t.Fatalf("result %+v, %v, want another look after %s", result, err, want)
		}
	}
	look(0)
	testenv.Eventually(t, func() error {
		if env.Read(t, client.ObjectKeyFromObject(pod.Pod), pod.Pod); !refused(pod.Pod) || pod.Status.NominatedNodeName != node.Name {
			return fmt.Errorf("the scheduler has not refused the pod, or took its nomination %q", pod.Status.NominatedNodeName)
		}
		return nil
	})
	other := onStage(testenv.APod("other").In(pod.Namespace).Asking(2))
	other.Spec.NodeSelector = map[string]string{hostname: node.Name}
	create(t, other)
	testenv.Eventually(t, func() error {
		if env.Read(t, client.ObjectKeyFromObject(other.Pod), other.Pod); !refused(other.Pod) {
			return errors.New("the nomination holds no room, so that this test tells nothing")
		}
		return nil
	})
	look(30 * time.Second)
	at.SetTime(at.Now().Add(30 * time.Second))
	look(0)
	opened(t, pod.Pod, "")
	bound(t, other.Pod, node.Name)
}

// prefers asks for a node as strongly as a preference can.
func prefers(node string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: hostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}},
	}}
}
