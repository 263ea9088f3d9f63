package validate_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func TestRefusalsNameTheField(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	env.Create(t, testenv.APersistentPodState("first").In(ns).Requires(hostname).PersistentPodState)
	job := testenv.APersistentPodState("job").In(ns).Requires(hostname)
	job.Spec.TargetReference.Kind, job.Spec.TargetReference.APIVersion = "Job", "batch/v1"
	impatient, picky := testenv.APersistentPodState("impatient").In(ns).Requires(hostname), testenv.APersistentPodState("picky").In(ns).Requires(hostname)
	impatient.Annotations = map[string]string{pin.AnnotationReleaseAfter: "10"}
	picky.Annotations = map[string]string{pin.AnnotationReleaseOn: "full"}
	hasty := testenv.APersistentPodState("hasty").In(ns).Prefers(1, hostname)
	hasty.Annotations = map[string]string{pin.AnnotationReturnAfter: "5s"}
	second := testenv.APersistentPodState("second").In(ns).Requires(hostname)
	second.Spec.TargetReference.Name = "first"
	alpha := testenv.AFormerPersistentPodState("alpha", ns)
	alpha.Spec.PreferredPersistentTopology[0].Preference.NodeTopologyKeys[1] = "a,b"
	cases := map[string]struct {
		state client.Object
		field string
	}{
		"the wrong kind of target":        {job.PersistentPodState, "spec.targetRef.kind"},
		"a kind that is not named":        {asking(ns, "unnamed", testenv.GameServers), "spec.targetRef.kind"},
		"a second one for a target":       {second.PersistentPodState, "spec.targetRef"},
		"no topology":                     {testenv.APersistentPodState("none").In(ns).PersistentPodState, "spec"},
		"a weight of 101":                 {testenv.APersistentPodState("heavy").In(ns).Prefers(101, hostname).PersistentPodState, "spec.preferredPersistentTopology[0].weight"},
		"a key that is not a label's key": {testenv.APersistentPodState("key").In(ns).Requires("a,b").PersistentPodState, "spec.requiredPersistentTopology.keys[0]"},
		"a key by its former name":        {alpha, "spec.preferredPersistentTopology[0].preference.nodeTopologyKeys[1]"},
		"a return after too short a time": {hasty.PersistentPodState, "metadata.annotations[limpet.dev/return-after]"},
		"a time to wait without a unit":   {impatient.PersistentPodState, "metadata.annotations[limpet.dev/release-after]"},
		"a fate that nodes do not have":   {picky.PersistentPodState, "metadata.annotations[limpet.dev/release-on]"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if tc.state == second.PersistentPodState {
				env.Since(t, 31, "selectable fields of CRDs")
			}
			if err := testenv.Refusal(env.Client.Create(t.Context(), tc.state), tc.field); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestABadAnnotationIsAnsweredWithAWarning(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	c, heard := env.Listen(t)
	env.Node(t)
	slip := testenv.APersistentPodState("slip").In(ns).Requires("kubernetes.io/hostnam")
	set := testenv.AStatefulSet("web", 1).In(ns)
	set.Spec.Template.Annotations = map[string]string{reservation.RetainAnnotation: "soon"}
	idle := testenv.APersistentPodState("idle").In(ns).Prefers(1, hostname)
	idle.Annotations = map[string]string{pin.AnnotationReleaseOn: "deleted"}
	typo := testenv.APersistentPodState("typo").In(ns).Prefers(1, hostname)
	typo.Annotations = map[string]string{"limpet.dev/release-afer": "5m"}
	cases := map[string]struct {
		object     client.Object
		annotation string
	}{
		"on a PersistentPodState that requires nothing": {idle.PersistentPodState, pin.AnnotationReleaseOn},
		"on a PersistentPodState that is misspelt":      {typo.PersistentPodState, "limpet.dev/release-afer"},
		"for a label that no node has":                  {slip.PersistentPodState, "no node has the label kubernetes.io/hostnam"},
		"in a template":                                 {set.StatefulSet, reservation.RetainAnnotation},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := c.Create(t.Context(), tc.object); err != nil {
				t.Fatal(err)
			}
			env.RemoveAtEnd(t, tc.object)
			if err := heard.Names(tc.annotation); err != nil {
				t.Error(err)
			}
		})
	}
}

// No pod of these namespaces is ever sent to the webhook.
func TestANamespaceWhosePodsAreNotPinnedIsWarnedOf(t *testing.T) {
	serve(t)
	c, heard := env.Listen(t)
	for _, ns := range workload.LeftOut() {
		state := testenv.APersistentPodState("left-out").In(ns).Requires(hostname).PersistentPodState
		if err := c.Create(t.Context(), state); err != nil {
			t.Fatal(err)
		}
		env.RemoveAtEnd(t, state)
		if err := heard.Names(ns); err != nil {
			t.Error(err)
		}
	}
}

// A target is accepted at once when its kind was named a moment before, whether the
// webhooks' cache shows the list yet or not.
func TestATargetOfAKindThatWasJustNamedIsAccepted(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	game := asking(ns, "game", testenv.GameServers)
	if err := testenv.Refusal(env.Client.Create(t.Context(), game), "spec.targetRef.kind"); err != nil {
		t.Fatal(err)
	}
	env.NameKinds(t)
	game.ResourceVersion = ""
	env.Create(t, game)
}

func TestAStatefulSetOfOpenKruiseIsATargetWithoutBeingNamed(t *testing.T) {
	serve(t)
	env.Create(t, asking(env.Namespace(t), "db", testenv.KruiseSets))
}
