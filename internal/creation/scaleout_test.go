package creation_test

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// limited is a StatefulSet whose pods start in parallel, with a limit.
func limited(t *testing.T, limit string) testenv.StatefulSet {
	t.Helper()
	set := testenv.AStatefulSet("web", 3).In(env.Namespace(t)).With(appsv1beta1.AnnotationScaleOutLimit, limit)
	set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	return set
}

func gatesOf(pod *corev1.Pod) (names []string) {
	for _, g := range pod.Spec.SchedulingGates {
		names = append(names, g.Name)
	}
	return names
}

// New pods of a StatefulSet with a limit wait behind the gate, those that return to their node
// too. Other pods do not.
func TestPodsUnderALimitAreGated(t *testing.T) {
	serve(t)
	for name, tc := range map[string]struct {
		limit string
		edit  func(testenv.StatefulSet)
		gated bool
	}{
		"a number":            {"2", nil, true},
		"a percentage":        {"10%", nil, true},
		"no limit":            {"many", nil, false},
		"one after the other": {"2", func(s testenv.StatefulSet) { s.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement }, false},
		"without a limit":     {"2", func(s testenv.StatefulSet) { s.Annotations = nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			set := limited(t, tc.limit)
			if tc.edit != nil {
				tc.edit(set)
			}
			put(t, set.StatefulSet)
			pod := admitted(t, testenv.APod("web-0").In(set.Namespace).OwnedBy(set.StatefulSet).Gated("example.com/own").Pod)
			want := []string{"example.com/own"}
			if tc.gated {
				want = append(want, appsv1beta1.GateScaleOut)
			}
			if got := gatesOf(pod); !slices.Equal(got, want) {
				t.Errorf("gates %v, want %v", got, want)
			}
		})
	}
}

// The first pods of a StatefulSet are created before each cache shows the set.
func TestTheFirstPodsUnderALimitAreGated(t *testing.T) {
	serve(t)
	set := limited(t, "1")
	env.Create(t, set.StatefulSet)
	for i := range 3 {
		pod := admitted(t, testenv.APod(fmt.Sprint("web-", i)).In(set.Namespace).OwnedBy(set.StatefulSet).Pod)
		if got := gatesOf(pod); !slices.Equal(got, []string{appsv1beta1.GateScaleOut}) {
			t.Errorf("gates %v, want the one of the limit", got)
		}
	}
}

// A pod that returns to its node has both gates. A pod whose owner is forged has none, and a pod
// that names its node cannot have one.
func TestGatesOfALimitBesideOthers(t *testing.T) {
	set := limited(t, "1")
	node := testenv.ANode(env.Name("node"))
	put(t, node.Node, set.StatefulSet, testenv.APersistentPodState("web").In(set.Namespace).
		Prefers(100, hostname).Recorded("web-0", node.Name, map[string]string{hostname: node.Name}).PersistentPodState)
	pod := admitted(t, testenv.APod("web-0").In(set.Namespace).OwnedBy(set.StatefulSet).Pod)
	if got := gatesOf(pod); !slices.Equal(got, []string{pin.Gate, appsv1beta1.GateScaleOut}) {
		t.Errorf("gates %v, want both", got)
	}
	forged := testenv.APod("web-1").In(set.Namespace).OwnedBy(set.StatefulSet)
	forged.OwnerReferences[0].UID = "forged"
	if got := gatesOf(admitted(t, forged.Pod)); len(got) > 0 {
		t.Errorf("a pod of a forged owner has the gates %v", got)
	}
	bound := testenv.APod("web-2").In(set.Namespace).OwnedBy(set.StatefulSet).On(node.Name)
	if got := gatesOf(admitted(t, bound.Pod)); len(got) > 0 {
		t.Errorf("a pod that names its node has the gates %v", got)
	}
	dry := testenv.APod("web-3").In(set.Namespace).OwnedBy(set.StatefulSet).Pod
	if err := env.Client.Create(t.Context(), dry, client.DryRunAll); err != nil || !slices.Equal(gatesOf(dry), []string{appsv1beta1.GateScaleOut}) {
		t.Errorf("a dry run: gates %v, error %v", gatesOf(dry), err)
	}
}
