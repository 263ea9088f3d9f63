package main

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
)

// deployment reads the Deployment as users apply it.
func deployment(t *testing.T) *appsv1.Deployment {
	t.Helper()
	for _, o := range env.Manifest(t, "deploy/controller/deployment.yaml") {
		if o.GetKind() == "Deployment" {
			d := &appsv1.Deployment{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, d); err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	t.Fatal("there is no Deployment")
	return nil
}

// A replica that ends answers until no API server asks it, and then ends what it handles: a
// request that finds no listener passes the budgets of an open namespace.
func TestAReplicaAnswersWhileItIsAsked(t *testing.T) {
	spec := deployment(t).Spec.Template.Spec
	hook := spec.Containers[0].Lifecycle
	if hook == nil || hook.PreStop == nil || hook.PreStop.Sleep == nil || hook.PreStop.Sleep.Seconds < 3 {
		t.Fatalf("lifecycle %+v, want a sleep before the stop", hook)
	}
	const stop = 10 // seconds for requests that are handled, see package serving
	if grace := *spec.TerminationGracePeriodSeconds; grace < hook.PreStop.Sleep.Seconds+stop+5 {
		t.Errorf("grace period %d s, want room for the sleep and the stop", grace)
	}
}

// A zone that is lost takes one replica with it. The scheduler sends the second one to the
// other zone, though a node of the first one is empty and the node there is busy.
func TestReplicasAreInTwoZones(t *testing.T) {
	install(t)
	for name, zone := range map[string]string{"a1": "a", "a2": "a", "b1": "b"} {
		node := testenv.ANode(name).Labelled(corev1.LabelTopologyZone, zone).Labelled(hostname, name).
			Labelled(stage, "zones").Tainted(stage, corev1.TaintEffectNoSchedule).WithRoom(20, 8)
		env.Create(t, node.Node)
	}
	env.Create(t, testenv.APod("busy").In(env.Namespace(t)).On("b1").Asking(6).Pod)
	env.StartScheduler(t)
	d := deployment(t)
	zones := map[string]string{}
	for i := range *d.Spec.Replicas {
		pod := replicaPlaced(t, d, "zones", i)
		zone := pod.Spec.NodeName[:1]
		if other := zones[zone]; other != "" {
			t.Errorf("nodes %s and %s have both replicas, and are in one zone", other, pod.Spec.NodeName)
		}
		zones[zone] = pod.Spec.NodeName
	}
}

// replicaPlaced creates a replica as the Deployment does, for the nodes of one test, and waits for
// its node.
func replicaPlaced(t *testing.T, d *appsv1.Deployment, on string, i int32) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, GenerateName: fmt.Sprintf("replica-%d-", i), Labels: maps.Clone(d.Spec.Template.Labels)},
		Spec:       *d.Spec.Template.Spec.DeepCopy(),
	}
	pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = on
	pod.Spec.NodeSelector = map[string]string{stage: on}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: stage, Operator: corev1.TolerationOpExists})
	if err := env.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	env.RemoveAtEnd(t, pod)
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Spec.NodeName == "" {
			return fmt.Errorf("replica %d is not placed: %+v", i, pod.Status.Conditions)
		}
		return nil
	})
	return pod
}

// Both replicas start while one node can take them. As soon as the other node can, the next pod
// goes there, however busy that node is.
func TestReplicasAreOnTwoNodes(t *testing.T) {
	install(t)
	node := func(name string) testenv.Node {
		return testenv.ANode(name).Labelled(stage, "nodes").Tainted(stage, corev1.TaintEffectNoSchedule).WithRoom(20, 8)
	}
	late := node("late").Tainted(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule)
	env.Create(t, node("early").Node, late.Node)
	env.Create(t, testenv.APod("busy").In(env.Namespace(t)).On("late").Asking(6).Pod)
	env.StartScheduler(t)
	d := deployment(t)
	first, second := replicaPlaced(t, d, "nodes", 0), replicaPlaced(t, d, "nodes", 1)
	if first.Spec.NodeName != "early" || second.Spec.NodeName != "early" {
		t.Fatalf("on %s and %s, want both on the only node", first.Spec.NodeName, second.Spec.NodeName)
	}
	env.Change(t, late.Node, func() {
		late.Spec.Taints = slices.DeleteFunc(late.Spec.Taints, func(taint corev1.Taint) bool { return taint.Key == corev1.TaintNodeNotReady })
	})
	env.Remove(t, second) // as a rollout does
	if next := replicaPlaced(t, d, "nodes", 1); next.Spec.NodeName != "late" {
		t.Errorf("the next replica is on %s, beside the first", next.Spec.NodeName)
	}
}
