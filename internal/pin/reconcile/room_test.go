package reconcile_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
)

// rivalsFor makes pods that can run on one node alone, each as large as the pod that is rebuilt there.
func rivalsFor(t *testing.T, node, namespace string, count int) (rivals []*corev1.Pod) {
	t.Helper()
	for i := range count {
		rival := onStage(testenv.APod(fmt.Sprint("rival-", i)).In(namespace).Asking(2))
		rival.Spec.NodeSelector, rival.Spec.TerminationGracePeriodSeconds = map[string]string{hostname: node}, new(int64(0))
		rivals = append(rivals, create(t, rival))
	}
	return rivals
}

// allRefused waits until the scheduler has refused all pods, of which none runs.
func allRefused(t *testing.T, pods []*corev1.Pod) {
	t.Helper()
	testenv.Eventually(t, func() error {
		for _, p := range pods {
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
				return err
			}
			if p.Spec.NodeName != "" {
				t.Fatalf("pod %s took the room of the pod that is rebuilt", p.Name)
			}
			if !refused(p) {
				return fmt.Errorf("pod %s was not tried yet", p.Name)
			}
		}
		return nil
	})
}

// oneBound waits until the scheduler has placed one of some pods.
func oneBound(t *testing.T, pods []*corev1.Pod) {
	t.Helper()
	testenv.Eventually(t, func() error {
		for _, p := range pods {
			if env.Read(t, client.ObjectKeyFromObject(p), p); p.Spec.NodeName != "" {
				return nil
			}
		}
		return errors.New("no pod is placed")
	})
}

// A node is full but for a pod that is rebuilt. From the nomination until the pod is bound no other pod takes its CPUs.
func TestNoPodTakesTheRoomOfANominatedPod(t *testing.T) {
	m := newManager(t)
	env.StartScheduler(t)
	node := stageNode(t, 10)
	pod := onStage(recordedPod(t, node.Name).With(pin.AnnotationNode, node.Name).Gated(pin.Gate).Asking(2))
	there := onStage(testenv.APod("there").In(pod.Namespace).Asking(2))
	there.Spec.NodeSelector = map[string]string{hostname: node.Name}
	bound(t, create(t, there), node.Name) // a scheduler that has not begun would not learn the nomination
	create(t, pod)
	patchStatus(t, pod.Pod, nomination(node.Name))
	rivals := rivalsFor(t, node.Name, pod.Namespace, 5)
	allRefused(t, rivals)
	began := time.Now()
	m.start(t, m.nominator())
	bound(t, pod.Pod, node.Name)
	t.Logf("bound %d ms after the controller started", time.Since(began).Milliseconds())
	allRefused(t, rivals)
}

// Between the end of a pod and the nomination of its successor nothing holds its room, so that a pod that waits for room
// takes it. The successor holds nothing then, and takes the room back by its PriorityClass alone.
func TestAPodThatWaitsTakesTheRoomOfADeletedPod(t *testing.T) {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: env.Name("returns")}, Value: 1000}
	env.Create(t, class)
	m := newManager(t)
	env.StartScheduler(t)
	m.start(t, m.nominator())
	for name, higher := range map[string]bool{"of the same priority, it waits": false, "of a higher priority, it returns": true} {
		t.Run(name, func(t *testing.T) {
			node := stageNode(t, 10)
			pod := onStage(recordedPod(t, node.Name).With(pin.AnnotationNode, node.Name).Gated(pin.Gate).Asking(2))
			pod.Spec.NodeSelector = map[string]string{hostname: node.Name}
			if higher {
				pod.Spec.PriorityClassName = class.Name
			}
			former := onStage(testenv.APod("former").In(pod.Namespace).On(node.Name).Asking(2))
			former.Spec.TerminationGracePeriodSeconds = new(int64(0))
			there := onStage(testenv.APod("there").In(pod.Namespace).On(node.Name).Asking(2))
			there.Spec.PriorityClassName = class.Name // is not preempted
			env.Create(t, former.Pod, there.Pod)
			rivals := rivalsFor(t, node.Name, pod.Namespace, 4)
			allRefused(t, rivals)
			env.Remove(t, former.Pod)
			oneBound(t, rivals)
			create(t, pod)
			if higher {
				bound(t, pod.Pod, node.Name)
				return
			}
			allRefused(t, []*corev1.Pod{pod.Pod})
			opened(t, pod.Pod, "")
		})
	}
}
