package console_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const nodes = 100

// hostile is a text that a tenant, or a stolen token of an agent, may write into objects. As HTML it would run a script.
const hostile = `<img src=x onerror="window.pwned=1"><script>window.pwned=1</script>`

// cluster fills the API server: 100 nodes with a pool of 253 addresses each, and one pod, one reservation, one
// PersistentPodState and one budget whose texts are hostile. It returns the namespace of the pod.
func cluster(t *testing.T) string {
	t.Helper()
	for i := range nodes {
		name := fmt.Sprintf("node-%d", i)
		env.Create(t, testenv.ANode(name).Node, &limpetv1alpha1.NodeIPPool{
			ObjectMeta: metav1.ObjectMeta{Name: name + ".limpet"},
			Status: limpetv1alpha1.NodeIPPoolStatus{
				Node: name, Network: "limpet", Total: 253, Free: 252, Reserved: 1, Ranges: []string{fmt.Sprintf("10.0.%d.2-10.0.%d.254", i, i)},
			},
		})
	}
	ns := env.Namespace(t)
	pod := testenv.APod("web-0").In(ns).On("node-0").At("10.0.0.2").Ready()
	gone := testenv.APod("web-1").In(ns).On("node-0").At("10.0.0.3")
	reserved := testenv.AReservation(gone.Pod, time.Now())
	forged := testenv.AReservation(testenv.APod("web-2").In(ns).On("node-0").At("10.0.0.5").Pod, time.Now())
	forged.Status.Pod = hostile
	foreign := &limpetv1alpha1.NodeIPPool{
		ObjectMeta: metav1.ObjectMeta{Name: "node-0.foreign"},
		Status: limpetv1alpha1.NodeIPPoolStatus{
			Node: "node-0", Network: hostile, Ranges: []string{"fd00::2-fd00::ffff"}, Conditions: []metav1.Condition{{
				Type: limpetv1alpha1.ConditionExhausted, Status: metav1.ConditionTrue, Reason: "NoneFree", Message: hostile, LastTransitionTime: metav1.Now(),
			}},
		},
	}
	state := testenv.APersistentPodState("web").In(ns).Requires(corev1.LabelHostname).Recorded("web-0", "node-0", nil)
	state.Status.Rebuilds = &appsv1beta1.Rebuilds{Kept: 2, Moved: 1, Last: &appsv1beta1.Rebuild{
		Pod: "web-0", Outcome: appsv1beta1.Moved, Cause: "NodeGone", Message: hostile, Time: metav1.Now(),
		From: appsv1beta1.Place{NodeName: "node-1"}, To: appsv1beta1.Place{NodeName: "node-0"},
	}}
	guard := &policyv1beta1.PodUnavailableBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
		Spec: policyv1beta1.PodUnavailableBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, MaxUnavailable: &intstr.IntOrString{IntVal: 1},
		},
	}
	env.Create(t, pod.Pod, reserved, forged, foreign, state.PersistentPodState, guard)
	guard.Status = policyv1beta1.PodUnavailableBudgetStatus{TotalReplicas: 3, DisruptedPods: map[string]metav1.Time{"web-1": metav1.Now()}}
	if err := env.Client.Status().Update(t.Context(), guard); err != nil {
		t.Fatal(err)
	}
	env.Create(t, &limpetv1alpha1.DisruptionBook{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: string(guard.UID)},
		Entries: limpetv1alpha1.DisruptionEntries{{
			UID: "u", Pod: "web-1", Use: "Gone", Vector: "evict", By: hostile, Since: metav1.NowMicro(), Expires: metav1.NewMicroTime(time.Now().Add(time.Hour)),
		}},
	}, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: ns, Name: "forged"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: "web-0"},
		Source:         corev1.EventSource{Component: "limpet-agent"}, Reason: "Reserved", Message: hostile, LastTimestamp: metav1.Now(),
	})
	return ns
}

// reserve makes the pod web-9 hold an address of node-0.
func reserve(t *testing.T, ns string) client.Object {
	t.Helper()
	r := testenv.AReservation(testenv.APod("web-9").In(ns).On("node-0").At("10.0.0.4").Pod, time.Now())
	env.Create(t, r)
	return r
}
