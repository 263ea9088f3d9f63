package reconcile_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// The user of a StatefulSet changes all four annotations, and takes them away.
func TestAGeneratedObjectFollowsTheAnnotations(t *testing.T) {
	startGenerator(t)
	set := generating(env.Namespace(t))
	env.Create(t, set.StatefulSet)
	like := func(want testenv.PersistentPodState, annotations ...string) {
		t.Helper()
		for _, key := range annotations {
			want.Spec.PersistentPodAnnotations = append(want.Spec.PersistentPodAnnotations, appsv1beta1.PersistentPodAnnotation{Key: key})
		}
		testenv.Eventually(t, func() error {
			got, err := env.State(t, set)
			if diff := cmp.Diff(want.Spec, got.Spec); err == nil && diff != "" {
				err = fmt.Errorf("spec (-want +got):\n%s", diff)
			}
			return err
		})
	}
	like(testenv.APersistentPodState("web").Prefers(100, hostname))

	env.Annotate(t, set.StatefulSet, appsv1beta1.AnnotationPodAnnotations, "example.com/seed,example.com/rack")
	like(testenv.APersistentPodState("web").Prefers(100, hostname), "example.com/seed", "example.com/rack")
	env.Annotate(t, set.StatefulSet, appsv1beta1.AnnotationRequiredTopology, corev1.LabelTopologyZone)
	like(testenv.APersistentPodState("web").Prefers(100, hostname).Requires(corev1.LabelTopologyZone), "example.com/seed", "example.com/rack")
	env.Annotate(t, set.StatefulSet, appsv1beta1.AnnotationPreferredTopology, hostname+","+corev1.LabelArchStable)
	env.Annotate(t, set.StatefulSet, appsv1beta1.AnnotationPodAnnotations, "example.com/seed")
	env.Annotate(t, set.StatefulSet, appsv1beta1.AnnotationRequiredTopology, "")
	like(testenv.APersistentPodState("web").Prefers(100, hostname, corev1.LabelArchStable), "example.com/seed")

	env.Annotate(t, set.StatefulSet, appsv1beta1.AnnotationAutoGenerate, "false")
	testenv.Eventually(t, func() error {
		if _, err := env.State(t, set); !apierrors.IsNotFound(err) {
			return fmt.Errorf("get PersistentPodState: %w, want it removed", err)
		}
		return nil
	})
}

// An object of a StatefulSet's name that a user made stays as it is, whatever the
// annotations of the StatefulSet say and unsay. The user is told once.
func TestAnObjectMadeByHandIsLeftAlone(t *testing.T) {
	startGenerator(t)
	ns := env.Namespace(t)
	own, set := testenv.APersistentPodState("web").In(ns).Requires(hostname), generating(ns)
	env.Create(t, own.PersistentPodState, set.StatefulSet)
	env.ToldOnce(t, set, pin.ReasonForeign)
	// A generator that has dealt with a later StatefulSet has dealt with this one.
	dealtWith := func(name string) {
		t.Helper()
		other := testenv.AStatefulSet(name, 1).In(ns).
			With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationPreferredTopology, hostname)
		env.Create(t, other.StatefulSet)
		env.ToldOnce(t, other, pin.ReasonGenerated)
	}
	for i := range int32(3) { // its status follows its pods
		set.Status.Replicas = i + 1
		if err := env.Client.Status().Update(t.Context(), set.StatefulSet); err != nil {
			t.Fatal(err)
		}
		dealtWith(fmt.Sprintf("other-%d", i))
	}
	if n := env.CountEvents(t, set, pin.ReasonForeign); n != 1 {
		t.Errorf("%d events though nothing changed, want one", n)
	}
	env.Annotate(t, set.StatefulSet, appsv1beta1.AnnotationAutoGenerate, "")
	dealtWith("other")
	got := env.MustState(t, set)
	if diff := cmp.Diff(own.Spec, got.Spec); diff != "" || len(got.OwnerReferences) > 0 || got.UID != own.UID {
		t.Errorf("owners %v, spec (-want +got):\n%s", got.OwnerReferences, diff)
	}
}

// The object that is in the way of a generated one may have the StatefulSet's name, or the
// StatefulSet as its target.
func TestAnObjectIsGeneratedWhenWhatWasInItsWayIsGone(t *testing.T) {
	cases := map[string]struct{ name, target string }{
		"an object of its name":         {"web", "other"},
		"an object for the same target": {"web-place", "web"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			ns := env.Namespace(t)
			other := testenv.APersistentPodState(tc.name).In(ns).Requires(hostname).PersistentPodState
			other.Spec.TargetReference.Name = tc.target
			set := generating(ns)
			env.Create(t, other, set.StatefulSet)
			startGenerator(t) // now: a cache may show the StatefulSet before the object
			env.ToldOnce(t, set, pin.ReasonForeign)
			env.Remove(t, other)
			isGenerated(t, set)
		})
	}
}

// isGenerated waits until a workload has a PersistentPodState of its name.
func isGenerated(t *testing.T, workload client.Object) {
	t.Helper()
	testenv.Eventually(t, func() error {
		state, err := env.State(t, workload)
		if err == nil && state.Labels[pin.LabelGenerated] != "true" {
			err = fmt.Errorf("labels: %v", state.Labels)
		}
		return err
	})
}

// The user of a StatefulSet is told once that the cluster takes no such object.
func TestAnObjectThatTheAPIRefusesIsTold(t *testing.T) {
	startGenerator(t)
	ns := env.Namespace(t)
	refuseStatesIn(t, ns)
	set := generating(ns)
	env.Create(t, set.StatefulSet)
	env.ToldOnce(t, set, pin.ReasonBadKeys)
}

// refuseStatesIn has a policy refuse PersistentPodStates in a namespace.
func refuseStatesIn(t *testing.T, ns string) {
	t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "none-in-" + ns}}
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule: admissionv1.Rule{
				APIGroups: []string{appsv1beta1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"persistentpodstates"},
			},
		},
	}}}
	policy.Spec.Validations = []admissionv1.Validation{{Expression: "object.metadata.namespace != '" + ns + "'"}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policy.Name}}
	binding.Spec.PolicyName = policy.Name
	binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Deny}
	env.Create(t, policy, binding)
	testenv.Eventually(t, func() error {
		probe := testenv.APersistentPodState("probe").In(ns).Requires(hostname).PersistentPodState
		if err := env.Client.Create(t.Context(), probe, client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("create: %w, want it refused", err)
		}
		return nil
	})
}
