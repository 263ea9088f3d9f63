package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
	"github.com/limpet-io/limpet/pkg/reservation"
)

const hostname = corev1.LabelHostname

// One installation of two replicas is taken through its life; the steps build on each
// other, as they do for a user.
func TestTwoReplicas(t *testing.T) {
	install(t)
	rival := twins(t)
	inherited := inherit(t)
	first, second := startBoth(t)
	env.Create(t, testenv.ANode("n1").Node, testenv.ANode("n2").Node)
	owned := ownedStates(t)

	t.Run("a rebuilt pod is pinned to its node", func(t *testing.T) { rebuilt(t, env.Namespace(t)) })
	t.Run("what became of a rebuilt pod is told", func(t *testing.T) { judged(t, first) })
	t.Run("pods return to a StatefulSet that was deleted and applied again", reapplied)
	t.Run("running pods are adopted by a StatefulSet that was made anew", adopted)
	t.Run("a node that keeps the addresses of a former life overrules no record", stale)
	t.Run("a StatefulSet is scaled to zero and back", scaled)
	t.Run("objects of a former installation are stored anew", func(t *testing.T) { migrated(t, inherited) })
	t.Run("both versions show every object", bothVersions)
	t.Run("a manifest of OpenKruise's users applies as it is", sampled)
	t.Run("ordinals need not begin with 0", ordinals)
	t.Run("thousands of records are one object", thousands)
	t.Run("records that do not fit into one object are told", full)
	t.Run("records follow labels and keys", relabelled)
	t.Run("a pod that was never Ready returns to its addresses", neverReady)
	t.Run("a node without an address left is not asked for", outOfAddresses)
	t.Run("a generated object follows the annotations", generated)
	t.Run("an object made by hand is left alone", foreign)
	t.Run("an object is generated when what was in its way is gone", unblocked)
	t.Run("an object that the API refuses is told", invalidated)
	t.Run("annotations of a pod are put back", putBack)
	t.Run("a pod waits for its required node", waited)
	t.Run("a pod that waits is held to the keys that are required now", reworded)
	t.Run("a pod waits by a PersistentPodState that is deleted", deserted)
	t.Run("a real scheduler places rebuilt pods", byScheduler)
	t.Run("pods of further kinds return, as they are named and served", customs)
	t.Run("a StatefulSet whose pod was refused is woken up", forgotten)
	t.Run("the younger of two for one workload counts when the other is gone", rival)
	t.Run("refusals name the field", refusals)
	t.Run("a bad annotation is answered with a warning", warnings)
	t.Run("a namespace whose pods are not pinned is told", leftOut)
	t.Run("the other replica answers as well", func(t *testing.T) {
		pointWebhooksAt(t, second)
		rebuilt(t, env.Namespace(t))
		bothVersions(t)
	})
	t.Run("a pod that moved while nobody led is known by its addresses", func(t *testing.T) { unseen(t, first) })
	t.Run("the other replica takes over when the leader is killed", func(t *testing.T) { rebuilt(t, env.Namespace(t)) })
	t.Run("a gate is opened whoever closed it, and those of others stay", func(t *testing.T) {
		pod := gated(t, env.Namespace(t))
		opened(t, pod, "n2", "example.com/own")
	})
	t.Run("a pod waits for the verdict on a silent node", silent)
	t.Run("a replica that hangs does not keep the pods of others", func(t *testing.T) { frozen(t, second) })
	t.Run("without any replica only retained pods wait", func(t *testing.T) {
		second.kill(t)
		away(t)
	})
	t.Run("without any replica no deletion hangs", func(t *testing.T) { undisturbed(t, owned) })
	t.Run("without any replica what is stored can be read and deleted", func(t *testing.T) { unconverted(t, inherited) })
	t.Run("a gate that was left closed is opened by the next replica", func(t *testing.T) {
		pod := gated(t, env.Namespace(t))
		startReplica(t)
		opened(t, pod, "n2", "example.com/own")
	})
}

// rebuilt sees a StatefulSet's pod recorded and its successor pinned.
func rebuilt(t *testing.T, ns string) {
	set := testenv.AStatefulSet("web", 2).In(ns).
		With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationPreferredTopology, hostname)
	env.Create(t, set.StatefulSet)
	pod := testenv.APod("web-0").In(ns).OwnedBy(set.StatefulSet).With(reservation.RetainAnnotation, "10")
	env.Create(t, pod.On("n1").Ready().Pod)

	key := client.ObjectKey{Namespace: ns, Name: "web"}
	var state appsv1beta1.PersistentPodState
	testenv.Eventually(t, func() error {
		if err := env.Client.Get(t.Context(), key, &state); err != nil {
			return err
		}
		if state.Status.PodStates["web-0"].NodeName != "n1" {
			return fmt.Errorf("status: %+v", state.Status)
		}
		return nil
	})
	want := appsv1beta1.PodState{UID: pod.UID, NodeName: "n1", NodeTopologyLabels: map[string]string{hostname: "n1"}, RetainSeconds: 600}
	if got := state.Status.PodStates["web-0"].RecordedAt; got == nil || time.Since(got.Time).Abs() > time.Minute {
		t.Errorf("recorded at %v, want about now", got)
	}
	want.RecordedAt = state.Status.PodStates["web-0"].RecordedAt
	if diff := cmp.Diff(want, state.Status.PodStates["web-0"]); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}

	if err := env.Client.Delete(t.Context(), pod.Pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	next := testenv.APod("web-0").In(ns).OwnedBy(set.StatefulSet).With(reservation.RetainAnnotation, "10")
	testenv.Eventually(t, func() error { // a webhook that moved is found by the API server in a moment
		next.ResourceVersion = ""
		return env.Client.Create(t.Context(), next.Pod)
	})
	t.Cleanup(func() { _ = env.Client.Delete(within(t, time.Second), next.Pod, client.GracePeriodSeconds(0)) })
	if got := next.Annotations[appsv1beta1.AnnotationInjected]; got != "web" {
		t.Errorf("annotation %s: %q", appsv1beta1.AnnotationInjected, got)
	}
	wantAffinity := &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
			Weight: 100,
			Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: hostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}},
			}},
		}},
	}}
	if diff := cmp.Diff(wantAffinity, next.Spec.Affinity); diff != "" {
		t.Errorf("affinity (-want +got):\n%s", diff)
	}
	if len(next.Spec.SchedulingGates) != 1 {
		t.Errorf("gates %v, want the one that a nomination is made behind", next.Spec.SchedulingGates)
	}
	opened(t, next.Pod, "n1")
}

// opened waits until a pod is behind no gate of ours, with its node nominated.
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

// gated makes a pod behind our gate and one of somebody else.
func gated(t *testing.T, ns string) *corev1.Pod {
	t.Helper()
	pod := testenv.APod("alone").In(ns).With(pin.AnnotationNode, "n2").Pod
	pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: pin.Gate}, {Name: "example.com/own"}}
	if err := env.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

func refusals(t *testing.T) {
	ns := env.Namespace(t)
	env.Create(t, testenv.APersistentPodState("first").In(ns).Requires(hostname).PersistentPodState)
	job := testenv.APersistentPodState("job").In(ns).Requires(hostname)
	job.Spec.TargetReference.Kind, job.Spec.TargetReference.APIVersion = "Job", "batch/v1"
	impatient, picky := testenv.APersistentPodState("impatient").In(ns).Requires(hostname), testenv.APersistentPodState("picky").In(ns).Requires(hostname)
	impatient.Annotations = map[string]string{pin.AnnotationReleaseAfter: "10"}
	picky.Annotations = map[string]string{pin.AnnotationReleaseOn: "full"}
	second := testenv.APersistentPodState("second").In(ns).Requires(hostname)
	second.Spec.TargetReference.Name = "first"
	alpha := anAlpha("alpha", ns)
	alpha.Spec.PreferredPersistentTopology[0].Preference.NodeTopologyKeys[1] = "a,b"
	cases := map[string]struct {
		state client.Object
		field string
	}{
		"the wrong kind of target":        {job.PersistentPodState, "spec.targetRef.kind"},
		"a second one for a target":       {second.PersistentPodState, "spec.targetRef"},
		"no topology":                     {testenv.APersistentPodState("none").In(ns).PersistentPodState, "spec"},
		"a weight of 101":                 {testenv.APersistentPodState("heavy").In(ns).Prefers(101, hostname).PersistentPodState, "spec.preferredPersistentTopology[0].weight"},
		"a key that is not a label's key": {testenv.APersistentPodState("key").In(ns).Requires("a,b").PersistentPodState, "spec.requiredPersistentTopology.keys[0]"},
		"a key by its former name":        {alpha, "spec.preferredPersistentTopology[0].preference.nodeTopologyKeys[1]"},
		"a time to wait without a unit":   {impatient.PersistentPodState, "metadata.annotations[limpet.dev/release-after]"},
		"a fate that nodes do not have":   {picky.PersistentPodState, "metadata.annotations[limpet.dev/release-on]"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := env.Client.Create(t.Context(), tc.state)
			if !apierrors.IsInvalid(err) {
				t.Fatalf("create: %v, want a refusal as invalid", err)
			}
			if !strings.Contains(err.Error(), tc.field) {
				t.Errorf("refusal %q does not name %s", err, tc.field)
			}
		})
	}
}

func warnings(t *testing.T) {
	ns := env.Namespace(t)
	c, heard := listen(t)
	set := testenv.AStatefulSet("web", 1).In(ns)
	set.Spec.Template.Annotations = map[string]string{reservation.RetainAnnotation: "soon"}
	idle := testenv.APersistentPodState("idle").In(ns).Prefers(1, hostname)
	idle.Annotations = map[string]string{pin.AnnotationReleaseOn: "deleted"}
	cases := map[string]struct {
		object     client.Object
		annotation string
	}{
		"on a pod of a StatefulSet": {
			testenv.APod("web-0").In(ns).OwnedBy(set.StatefulSet).With(reservation.RetainAnnotation, "-1").Pod,
			reservation.RetainAnnotation,
		},
		"on a pod of nobody": {
			testenv.APod("alone").In(ns).With(reservation.RetainAnnotation, "1441").Pod, reservation.RetainAnnotation,
		},
		"on a pod of nobody that says how but not for how long": {
			testenv.APod("how").In(ns).With(reservation.ModeAnnotation, "always").Pod, reservation.ModeAnnotation,
		},
		"on a PersistentPodState that requires nothing": {idle.PersistentPodState, pin.AnnotationReleaseOn},
		"in a template": {set.StatefulSet, reservation.RetainAnnotation},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			heard.reset()
			if err := c.Create(t.Context(), tc.object); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(heard.text(), tc.annotation) {
				t.Errorf("warnings %q do not name annotation %s", heard.text(), tc.annotation)
			}
		})
	}
}
