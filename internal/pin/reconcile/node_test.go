package reconcile_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	controller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// A node of thousands triggers the PersistentPodStates that it concerns, and no others.
func TestANodeTriggersFewStates(t *testing.T) {
	ns, node := env.Namespace(t), testenv.ANode("few-0").Node
	env.Create(t, node)
	for _, name := range []string{"runs", "waits", "lacks", "other"} {
		state := testenv.APersistentPodState(name).In(ns).Requires(hostname).PersistentPodState
		set := testenv.AStatefulSet(name, 1).In(ns)
		env.Create(t, set.StatefulSet, state)
		record := appsv1beta1.PodState{NodeName: node.Name, NodeTopologyLabels: map[string]string{hostname: node.Name}}
		switch name {
		case "runs":
			env.Create(t, testenv.APod("runs-0").OwnedBy(set.StatefulSet).In(ns).On(node.Name).Pod)
		case "waits":
			env.Create(t, testenv.APod("waits-0").OwnedBy(set.StatefulSet).In(ns).With(appsv1beta1.AnnotationInjected, name).
				With(podpatch.AnnotationPlace, hostname+"=few-1").Refused(unschedulable).Pod)
		case "lacks":
			record.NodeTopologyLabels = nil
		}
		state.Status.PodStates = map[string]appsv1beta1.PodState{name + "-0": record}
		if err := env.Client.Status().Update(t.Context(), state); err != nil {
			t.Fatal(err)
		}
	}
	m := newManager(t)
	m.start(t)
	names := func(requests []reconcile.Request) (names []string) {
		for _, req := range requests {
			if req.Namespace == ns {
				names = append(names, req.Name)
			}
		}
		slices.Sort(names)
		return names
	}
	testenv.Eventually(t, func() error {
		labels, schedulability := controller.OfNode(t.Context(), m.GetClient(), node)
		diff := cmp.Diff([]string{"lacks", "runs", "waits"}, names(labels)) + cmp.Diff([]string{"runs", "waits"}, names(schedulability))
		if diff != "" {
			return fmt.Errorf("triggered by labels and by schedulability (-want +got):\n%s", diff) //nolint:err113 // a difference
		}
		return nil
	})
}

// A start reconciles each PersistentPodState once, and not again for each of 5 000 nodes.
func TestTheNodesOfAStartTriggerNothing(t *testing.T) {
	for i, passes := range controller.NodeEvents {
		e := event.CreateEvent{Object: testenv.ANode("n").Node, IsInInitialList: true}
		if passes.Create(e) {
			t.Errorf("predicate %d passes a node of the first list", i)
		}
		if e.IsInInitialList = false; !passes.Create(e) {
			t.Errorf("predicate %d does not pass a new node", i)
		}
	}
}

// Neither do the pods of a start. One that waits may name a state that is gone.
func TestThePodsOfAStartTriggerNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		pod     testenv.Pod
		initial bool
		want    bool
	}{
		"a new pod":                    {testenv.APod("web-0"), false, true},
		"a pod of the first list":      {testenv.APod("web-0").On("n1").Ready(), true, false},
		"… that a state keeps waiting": {testenv.APod("web-0").With(appsv1beta1.AnnotationInjected, "web").With(podpatch.AnnotationPlace, "k=v").OwnedBy(testenv.AStatefulSet("web", 1).StatefulSet).Refused("no node fits"), true, true},
	} {
		if got := controller.RecordChanged.Create(event.CreateEvent{Object: tc.pod.Pod, IsInInitialList: tc.initial}); got != tc.want {
			t.Errorf("%s passes: %t, want %t", name, got, tc.want)
		}
	}
}
