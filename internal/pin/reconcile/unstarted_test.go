package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// boundTo makes a pod that is bound to a node and that no kubelet has seen.
func boundTo(t *testing.T, set testenv.StatefulSet, node string) *corev1.Pod {
	t.Helper()
	pod := podOf(set).On(node).Pod
	pod.Status.Phase = corev1.PodPending
	env.Create(t, pod)
	return pod
}

// fallSilent makes a node one whose state Kubernetes does not know.
func fallSilent(t *testing.T, node *corev1.Node) {
	t.Helper()
	env.Read(t, client.ObjectKeyFromObject(node), node)
	node.Status.Conditions[0].Status = corev1.ConditionUnknown
	if err := env.Client.Status().Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
}

// A pod that Limpet pinned to a node which was dead already goes by itself, if it prefers its place. The API server
// tells that the pod was bound after the last renewal of the node's lease.
func TestAPodThatWasPinnedToADeadNodeGoes(t *testing.T) {
	startRecorder(t)
	node, late := silentSince(t, time.Now().Add(-time.Minute)), silentSince(t, time.Now().Add(-time.Minute))
	for range 4 { // most nodes are well
		env.Node(t)
	}
	pinnedTo := func(node testenv.Node, at time.Time) *corev1.Pod {
		pod := podOf(preferring(t), pin.AnnotationNode, node.Name).On(node.Name).Pod
		pod.Status.Phase = corev1.PodPending
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
		env.Create(t, pod)
		fallSilent(t, node.Node)
		return pod
	}
	stays := pinnedTo(late, time.Now().Add(-time.Hour)) // the lease was renewed since
	goes := pinnedTo(node, time.Now().Add(2*time.Second))
	isDeleted(t, goes)
	env.Told(t, stays, pin.ReasonNotStarted, "bring node "+late.Name+" back")
	if env.Read(t, client.ObjectKeyFromObject(stays), stays); stays.DeletionTimestamp != nil {
		t.Error("a pod that its node may have started is deleted")
	}
}

// A pod is bound to a node that dies before it starts the pod. The pod is reported at once, and
// stays: the node may be cut off and run the pod. With the consent of its user it is deleted
// without waiting for the kubelet, unless the kubelet is back.
func TestAPodThatItsNodeHasNotStarted(t *testing.T) {
	startRecorder(t)
	node := silentSince(t, time.Now().Add(-time.Minute))
	for range 3 { // most nodes are well
		env.Node(t)
	}
	set := preferring(t)
	pod := boundTo(t, set, node.Name)
	fallSilent(t, node.Node)
	waits(t, set, pin.ReasonNotStarted)
	env.Told(t, pod, pin.ReasonNotStarted, "bring node "+node.Name+" back")

	renew(t, node.Name, time.Now()) // the kubelet is back, and Kubernetes has not noticed
	state := env.MustState(t, set)
	env.Annotate(t, state, pin.AnnotationReleaseOn, string(pin.TriggerUnstarted))
	second := testenv.AStatefulSet("other", 1).In(set.Namespace)
	env.Create(t, second.StatefulSet, testenv.APersistentPodState("other").In(set.Namespace).Prefers(100, hostname).PersistentPodState)
	env.Annotate(t, env.MustState(t, second), pin.AnnotationReleaseOn, string(pin.TriggerUnstarted))
	dead := silentSince(t, time.Now().Add(-time.Minute))
	doomed := boundTo(t, second, dead.Name)
	fallSilent(t, dead.Node)
	isDeleted(t, doomed) // at once, although nothing ends the grace period of a pod here
	env.Told(t, env.MustState(t, second), pin.ReasonReleased, "deleted by force")
	env.Read(t, client.ObjectKeyFromObject(pod), pod)
	if pod.DeletionTimestamp != nil {
		t.Error("a pod whose kubelet is back is deleted")
	}

	pod.Status.StartTime = &metav1.Time{Time: time.Now()} // the kubelet has begun
	if err := env.Client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		if c := meta.FindStatusCondition(env.MustState(t, set).Status.Conditions, appsv1beta1.ConditionWaiting); c != nil {
			return fmt.Errorf("condition %+v after the start of the pod", c)
		}
		return nil
	})
}
