package main

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// generated follows a StatefulSet whose user changes all four annotations, and takes
// them away.
func generated(t *testing.T) {
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 1).In(ns).
		With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationPreferredTopology, hostname)
	env.Create(t, set.StatefulSet)
	like := func(want testenv.PersistentPodState, annotations ...string) {
		t.Helper()
		for _, key := range annotations {
			want.Spec.PersistentPodAnnotations = append(want.Spec.PersistentPodAnnotations, appsv1beta1.PersistentPodAnnotation{Key: key})
		}
		testenv.Eventually(t, func() error {
			got, err := stateOf(t, set.StatefulSet)
			if err != nil {
				return err
			}
			if diff := cmp.Diff(want.Spec, got.Spec); diff != "" {
				return fmt.Errorf("spec (-want +got):\n%s", diff)
			}
			return nil
		})
	}
	like(testenv.APersistentPodState("web").Prefers(100, hostname))

	annotate(t, set.StatefulSet, appsv1beta1.AnnotationPodAnnotations, "example.com/seed,example.com/rack")
	like(testenv.APersistentPodState("web").Prefers(100, hostname), "example.com/seed", "example.com/rack")
	annotate(t, set.StatefulSet, appsv1beta1.AnnotationRequiredTopology, corev1.LabelTopologyZone)
	like(testenv.APersistentPodState("web").Prefers(100, hostname).Requires(corev1.LabelTopologyZone), "example.com/seed", "example.com/rack")
	annotate(t, set.StatefulSet, appsv1beta1.AnnotationPreferredTopology, hostname+","+corev1.LabelArchStable)
	annotate(t, set.StatefulSet, appsv1beta1.AnnotationPodAnnotations, "example.com/seed")
	annotate(t, set.StatefulSet, appsv1beta1.AnnotationRequiredTopology, "")
	like(testenv.APersistentPodState("web").Prefers(100, hostname, corev1.LabelArchStable), "example.com/seed")

	annotate(t, set.StatefulSet, appsv1beta1.AnnotationAutoGenerate, "false")
	testenv.Eventually(t, func() error {
		if _, err := stateOf(t, set.StatefulSet); !apierrors.IsNotFound(err) {
			return fmt.Errorf("get PersistentPodState: %w, want it removed", err)
		}
		return nil
	})
}

// foreign leaves an object of the set's name alone that somebody made by hand, whatever
// the set's annotations say and unsay.
func foreign(t *testing.T) {
	ns := env.Namespace(t)
	own := testenv.APersistentPodState("web").In(ns).Requires(hostname)
	set := testenv.AStatefulSet("web", 1).In(ns).
		With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationPreferredTopology, hostname)
	env.Create(t, own.PersistentPodState, set.StatefulSet)
	testenv.Eventually(t, func() error {
		if n := eventsOf(t, set.StatefulSet, pin.ReasonForeign); n != 1 {
			return fmt.Errorf("%d events on the set, want one", n)
		}
		return nil
	})
	dealtWith := func(name string) { // a second set says when changes of the first have been: there is one queue
		t.Helper()
		other := testenv.AStatefulSet(name, 1).In(ns).
			With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationPreferredTopology, hostname)
		env.Create(t, other.StatefulSet)
		testenv.Eventually(t, func() error {
			if n := eventsOf(t, other.StatefulSet, pin.ReasonGenerated); n != 1 {
				return fmt.Errorf("%d events on set %s, want one", n, name)
			}
			return nil
		})
	}
	for i := range int32(3) { // its status follows its pods
		set.Status.Replicas = i + 1
		if err := env.Client.Status().Update(t.Context(), set.StatefulSet); err != nil {
			t.Fatal(err)
		}
		dealtWith(fmt.Sprintf("other-%d", i))
	}
	if n := eventsOf(t, set.StatefulSet, pin.ReasonForeign); n != 1 {
		t.Errorf("%d events of what did not change, want one", n)
	}
	annotate(t, set.StatefulSet, appsv1beta1.AnnotationAutoGenerate, "")
	dealtWith("other")
	got, err := stateOf(t, set.StatefulSet)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(own.Spec, got.Spec); diff != "" || len(got.OwnerReferences) > 0 || got.UID != own.UID {
		t.Errorf("owners %v, spec (-want +got):\n%s", got.OwnerReferences, diff)
	}
}

// unblocked makes a set's object as soon as that of somebody else is gone, whether it has
// the set's name or is for the set.
func unblocked(t *testing.T) {
	for _, tc := range []struct{ name, target string }{{"web", "other"}, {"web-place", "web"}} {
		ns := env.Namespace(t)
		other := testenv.APersistentPodState(tc.name).In(ns).Requires(hostname).PersistentPodState
		other.Spec.TargetReference.Name = tc.target
		set := testenv.AStatefulSet("web", 1).In(ns).
			With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationPreferredTopology, hostname)
		env.Create(t, other, set.StatefulSet)
		givesWay(t, other, set)
		testenv.Eventually(t, func() error {
			state, err := stateOf(t, set.StatefulSet)
			if err == nil && !metav1.IsControlledBy(state, set) {
				err = fmt.Errorf("owners: %v", state.OwnerReferences)
			}
			return err
		})
	}
}

// invalidated tells a set's user once that the cluster takes no such object.
func invalidated(t *testing.T) {
	ns := env.Namespace(t)
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
	set := testenv.AStatefulSet("web", 1).In(ns).
		With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationPreferredTopology, hostname)
	env.Create(t, set.StatefulSet)
	testenv.Eventually(t, func() error {
		if n := eventsOf(t, set.StatefulSet, pin.ReasonBadKeys); n != 1 {
			return fmt.Errorf("%d events on the set, want one", n)
		}
		return nil
	})
}

// givesWay removes an object that kept another from being generated.
func givesWay(t *testing.T, s *appsv1beta1.PersistentPodState, workload client.Object) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if n := eventsOf(t, workload, pin.ReasonForeign); n != 1 {
			return fmt.Errorf("%d events on the workload, want one", n)
		}
		return nil
	})
	if err := env.Client.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
}

// eventsOf counts the events on a workload for a reason.
func eventsOf(t *testing.T, workload client.Object, reason string) (n int) {
	t.Helper()
	var list eventsv1.EventList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(workload.GetNamespace())); err != nil {
		t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Reason == reason && e.Regarding.UID == workload.GetUID() {
			n++
		}
	}
	return n
}

// putBack gives a rebuilt pod the annotations that its predecessor got while it lived, but
// not those of the plan that its template was copied with.
func putBack(t *testing.T) {
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 1).In(ns)
	wish := testenv.APersistentPodState("web").In(ns).Prefers(100, hostname)
	for _, key := range []string{"example.com/seed", "example.com/role"} {
		wish.Spec.PersistentPodAnnotations = append(wish.Spec.PersistentPodAnnotations, appsv1beta1.PersistentPodAnnotation{Key: key})
	}
	env.Create(t, set.StatefulSet, wish.PersistentPodState)
	pod := living(t, set.StatefulSet, "n1", "10.0.1.30")
	annotate(t, pod, "example.com/seed", "7")
	annotate(t, pod, "example.com/role", "leader")
	testenv.Eventually(t, func() error {
		state, err := stateOf(t, set.StatefulSet)
		want := map[string]string{"example.com/seed": "7", "example.com/role": "leader"}
		if diff := cmp.Diff(want, state.Status.PodStates["web-0"].Annotations); err == nil && diff != "" {
			err = fmt.Errorf("recorded annotations (-want +got):\n%s", diff)
		}
		return err
	})
	remove(t, pod)
	next := testenv.APod("web-0").In(ns).OwnedBy(set.StatefulSet).
		With(reservation.RetainAnnotation, "10").With("example.com/role", "follower").
		With(appsv1beta1.AnnotationInjected, "other").With(pin.AnnotationPlace, hostname+"=gone").Pod
	if err := env.Client.Create(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"example.com/seed": "7", "example.com/role": "follower", appsv1beta1.AnnotationInjected: "web", pin.AnnotationPlace: "",
	} {
		if got := next.Annotations[key]; got != want {
			t.Errorf("annotation %s: %q, want %q", key, got, want)
		}
	}
}

// annotate sets an annotation; "" removes it.
func annotate(t *testing.T, o client.Object, key, value string) {
	t.Helper()
	before := o.DeepCopyObject().(client.Object)
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[key] = value
	if value == "" {
		delete(annotations, key)
	}
	o.SetAnnotations(annotations)
	if err := env.Client.Patch(t.Context(), o, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}
