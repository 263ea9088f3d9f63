package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controller "github.com/limpet-io/limpet/internal/controller/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/pin"
)

// silent has pods wait for the verdict on nodes that are not heard of, and for no others.
func silent(t *testing.T) {
	ns := env.Namespace(t)
	env.Create(t, testenv.ANode("speaks-again").Node, testenv.ANode("found-dead").Node, testenv.ANode("clock-behind").Node)
	overdue := time.Now().Add(-16 * time.Second)
	returns := returning(t, ns, "speaks-again", overdue)
	moves := returning(t, ns, "found-dead", overdue)
	late := returning(t, ns, "clock-behind", overdue.Add(-time.Hour))
	opened(t, gated(t, ns), "n2", "example.com/own") // which came after them
	testenv.Eventually(t, func() error { return toldOf(t, moves, pin.ReasonNodeSilent, "found-dead") })
	for _, pod := range []*corev1.Pod{returns, moves, late} {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || !pin.Gated(pod) {
			t.Errorf("%s does not wait: %v", pod.Name, err)
		}
	}

	renew(t, "speaks-again", time.Now())
	opened(t, returns, "speaks-again")
	renew(t, "clock-behind", overdue.Add(10*time.Second-time.Hour))
	opened(t, late, "clock-behind")
	dead := testenv.ANode("found-dead").Node
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"taints":[{"key":%q,"effect":"NoSchedule"}]}}`, corev1.TaintNodeUnreachable))
	if err := env.Client.Patch(t.Context(), dead, patch); err != nil {
		t.Fatal(err)
	}
	opened(t, moves, "")
}

// A pod is told once that it waits for a silent node, by the replica that leads.
func TestASilentNodeIsToldOnce(t *testing.T) {
	ns := env.Namespace(t)
	at := clocktesting.NewFakePassiveClock(time.Now())
	node := testenv.ANode("silent-" + ns[len(ns)-5:])
	env.Create(t, node.Node)
	pod := returning(t, ns, node.Name, at.Now().Add(-16*time.Second))
	elected, told := make(chan struct{}), events.NewFakeRecorder(100)
	nominator := &controller.Nominator{
		Client: env.Client, Clock: at, Elected: elected, Events: told, Leases: &controller.LeaseMonitor{Live: env.Client, Clock: at},
	}
	look := func(after time.Duration, want int) {
		t.Helper()
		at.SetTime(at.Now().Add(after))
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
	remove(t, pod)
	again := testenv.APod(node.Name).In(ns).With(pin.AnnotationNode, node.Name).Pod
	again.Spec.SchedulingGates = pod.Spec.SchedulingGates
	env.Create(t, again)
	look(time.Second, 1)
	look(time.Hour, 0)
	opened(t, again, node.Name)
}

// returning makes a pod behind our gate, whose node's kubelet renewed its lease last then.
func returning(t *testing.T, ns, node string, renewed time.Time) *corev1.Pod {
	t.Helper()
	env.Create(t, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node},
		Spec:       coordinationv1.LeaseSpec{LeaseDurationSeconds: new(int32(40)), RenewTime: &metav1.MicroTime{Time: renewed}},
	})
	pod := testenv.APod(node).In(ns).With(pin.AnnotationNode, node).Pod
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: pin.Gate}}
	if err := env.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func renew(t *testing.T, node string, at time.Time) {
	t.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: node}}
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, at.UTC().Format(metav1.RFC3339Micro)))
	if err := env.Client.Patch(t.Context(), lease, patch); err != nil {
		t.Fatal(err)
	}
}
