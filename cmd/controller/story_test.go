package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1alpha1 "github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

const hostname = corev1.LabelHostname

// Two replicas start on a cluster that had OpenKruise. First the leader is killed, then the
// other replica. Each step needs the ones before.
func TestTwoReplicas(t *testing.T) {
	install(t)
	inherited := inherit(t)
	first, second := startBoth(t)
	owned := ownedStates(t)
	gated := recordedPod(t)

	t.Run("objects of a former installation are migrated", func(t *testing.T) { migrated(t, inherited) })
	t.Run("a pod is recorded, pinned, nominated and kept", func(t *testing.T) {
		rebuilt(t)
		testenv.Eventually(t, func() error { // the number follows the status
			if text := first.scrape(t); !strings.Contains(text, `limpet_rebuilds_total{cause="",outcome="Kept"} 1`) {
				return fmt.Errorf("the metrics of the leader do not count one pod that was kept: %v", linesOf(text, "limpet_rebuilds_total"))
			}
			return nil
		})
	})
	t.Run("the metrics say which version runs", func(t *testing.T) {
		if want := fmt.Sprintf("limpet_build_info{goversion=%q,program=\"limpet-controller\",version=", runtime.Version()); !strings.Contains(first.scrape(t), want) {
			t.Errorf("the metrics lack %s", want)
		}
	})
	t.Run("every label of a metric is bounded", func(t *testing.T) { labelsShown(t, first) })
	t.Run("the other replica answers as well", func(t *testing.T) {
		pointWebhooksAt(t, second)
		rebuilt(t)
		converted(t)
	})
	t.Run("a pod that moved without a leader is known by its addresses", func(t *testing.T) { unseen(t, first) })
	t.Run("the other replica takes over when the leader is killed", rebuilt)
	t.Run("a replica that hangs does not keep the pods of others", func(t *testing.T) { frozen(t, second) })
	t.Run("without any replica only retained pods wait", func(t *testing.T) {
		second.kill(t)
		away(t)
	})
	t.Run("without any replica no deletion hangs", func(t *testing.T) { undisturbed(t, owned) })
	t.Run("without any replica what is stored can be read and deleted", func(t *testing.T) { unconverted(t, inherited) })
	t.Run("a gate that was left closed is opened by the next replica", func(t *testing.T) {
		env.Create(t, gated.Pod)
		startReplica(t)
		opened(t, gated.Pod, gated.Annotations[pin.AnnotationNode])
	})
}

// recordedPod records the node of a pod that is gone. It returns the next pod behind the
// gate, as the webhook makes it.
func recordedPod(t *testing.T) testenv.Pod {
	t.Helper()
	ns, node := env.Namespace(t), env.Node(t)
	set := testenv.AStatefulSet("web", 1).In(ns).
		With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationPreferredTopology, hostname)
	env.Create(t, set.StatefulSet)
	former := scheduled(t, set, node.Name, "10.0.1.7")
	env.RecordedOn(t, set, map[string]string{"web-0": node.Name})
	env.Remove(t, former)
	return testenv.APod("web-0").In(ns).OwnedBy(set.StatefulSet).With(pin.AnnotationNode, node.Name).Gated(pin.Gate)
}

// rebuilt takes a pod through all rooms: its object is generated, its place recorded, its
// successor pinned and nominated, and counted as kept.
func rebuilt(t *testing.T) {
	ns, node := env.Namespace(t), env.Node(t)
	set := testenv.AStatefulSet("web", 1).In(ns).
		With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationPreferredTopology, hostname)
	env.Create(t, set.StatefulSet)
	pod := scheduled(t, set, node.Name, "10.0.1.5")
	env.RecordedOn(t, set, map[string]string{"web-0": node.Name})
	env.Remove(t, pod)
	next := nextOf(set)
	testenv.Eventually(t, func() error { // a webhook that moved is found by the API server in a moment
		next.ResourceVersion = ""
		return env.Client.Create(t.Context(), next)
	})
	env.RemoveAtEnd(t, next)
	if next.Annotations[appsv1beta1.AnnotationInjected] != "web" || next.Spec.Affinity == nil || len(next.Spec.SchedulingGates) != 1 {
		t.Errorf("annotations %v, affinity %v, gates %v", next.Annotations, next.Spec.Affinity, next.Spec.SchedulingGates)
	}
	opened(t, next, node.Name)
	bind(t, next, node.Name, "10.0.1.5")
	testenv.Eventually(t, func() error {
		state, err := env.State(t, set)
		if r := state.Status.Rebuilds; err == nil && (r == nil || r.Kept != 1 || r.Last.Outcome != appsv1beta1.Kept) {
			err = fmt.Errorf("rebuilds: %+v", r)
		}
		return err
	})
}

// nextOf begins the first pod of a StatefulSet, which asks to keep its address.
func nextOf(set testenv.StatefulSet) *corev1.Pod {
	return testenv.APod("web-0").In(set.Namespace).OwnedBy(set.StatefulSet).With(reservation.RetainAnnotation, "10").Pod
}

// opened waits until a pod is behind no gate, with its node nominated.
func opened(t *testing.T, pod *corev1.Pod, node string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if gates := pod.Spec.SchedulingGates; len(gates) > 0 || node != "" && pod.Status.NominatedNodeName != node {
			return fmt.Errorf("gates %v, nominated %q", gates, pod.Status.NominatedNodeName)
		}
		return nil
	})
}

// scheduled makes the first pod of a StatefulSet, and plays scheduler and kubelet for it.
func scheduled(t *testing.T, set testenv.StatefulSet, node, ip string) *corev1.Pod {
	t.Helper()
	pod := nextOf(set)
	testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), pod) }) // as above
	env.RemoveAtEnd(t, pod)
	opened(t, pod, "")
	bind(t, pod, node, ip)
	return pod
}

// bind puts a pod that nothing holds back on a node, where it is Ready.
func bind(t *testing.T, pod *corev1.Pod, node, ip string) {
	t.Helper()
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	if err := env.Client.SubResource("binding").Create(t.Context(), pod, binding); err != nil {
		t.Fatal(err)
	}
	env.Read(t, client.ObjectKeyFromObject(pod), pod)
	env.ChangeStatus(t, pod, func() {
		pod.Status.PodIPs = nil
		pod.Status = testenv.Pod{Pod: pod}.At(ip).Ready().Status
	})
}

// converted reads an object of the former version in the one that is stored.
func converted(t *testing.T) {
	t.Helper()
	alpha := testenv.AFormerPersistentPodState("alpha", env.Namespace(t))
	env.Create(t, alpha)
	var state appsv1beta1.PersistentPodState
	env.Read(t, client.ObjectKeyFromObject(alpha), &state)
	var again appsv1alpha1.PersistentPodState
	env.Read(t, client.ObjectKeyFromObject(alpha), &again)
	if keys := state.Spec.RequiredPersistentTopology.Keys; !slices.Equal(keys, again.Spec.RequiredPersistentTopology.NodeTopologyKeys) {
		t.Errorf("keys %v in the one version, %v in the other", keys, again.Spec.RequiredPersistentTopology.NodeTopologyKeys)
	}
}

// unseen moves and deletes a pod while no replica leads and records. The next pod goes to
// the node that holds the addresses.
func unseen(t *testing.T, leader *replica) {
	ns, before, after := env.Namespace(t), env.Node(t), env.Node(t)
	set := testenv.AStatefulSet("web", 1).In(ns)
	env.Create(t, set.StatefulSet, testenv.APersistentPodState("web").In(ns).Prefers(100, hostname).PersistentPodState)
	pod := scheduled(t, set, before.Name, "10.0.1.9")
	env.RecordedOn(t, set, map[string]string{"web-0": before.Name})
	leader.kill(t)
	env.Patch(t, leaseOf(t), `{"spec":{"leaseDurationSeconds":3600}}`) // no other leads before the check

	env.Remove(t, pod)
	moved := scheduled(t, set, after.Name, "10.0.2.9")
	env.Create(t, testenv.AReservation(moved, time.Now().Add(5*time.Second))) // it ran for a while
	env.Remove(t, moved)
	if node := env.MustState(t, set).Status.PodStates["web-0"].NodeName; node != before.Name {
		t.Fatalf("recorded on %s, want what the leader left", node)
	}
	env.Patch(t, leaseOf(t), `{"spec":{"leaseDurationSeconds":1}}`)
	testenv.Eventually(t, func() error { // the reservation may be new to the replica's cache
		again := nextOf(set)
		if err := env.Client.Create(t.Context(), again); err != nil {
			return err
		}
		env.Remove(t, again)
		if got := again.Annotations; got[pin.AnnotationNode] != after.Name || got[pin.AnnotationRecalled] != after.Name {
			return fmt.Errorf("annotations %v, want a pin to %s", got, after.Name)
		}
		return nil
	})
}

// linesOf returns the lines of a text that begin with a word.
func linesOf(text, word string) []string {
	return slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return !strings.HasPrefix(line, word) })
}
