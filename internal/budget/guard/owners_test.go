package guard_test

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// No steps by which a user changes the owners of a pod end with owners that the user may delete.
func TestOwnersThatChangeInStepsAreJudged(t *testing.T) {
	serve(t)
	ns := guarded(t)
	_, pods := web(t, ns, 4, intstr.FromInt32(0))
	mine := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "mine", UID: "mine"}
	for i, steps := range [][]func([]metav1.OwnerReference) []metav1.OwnerReference{
		{ // an owner beside the controller, which takes over when the controller goes
			func(o []metav1.OwnerReference) []metav1.OwnerReference { return append(o, mine) },
			func(o []metav1.OwnerReference) []metav1.OwnerReference {
				o[1].Controller = new(true)
				return o[1:]
			},
		},
		{ // an owner that stays when the controller goes
			func(o []metav1.OwnerReference) []metav1.OwnerReference { return append(o, mine) },
			func(o []metav1.OwnerReference) []metav1.OwnerReference { return o[1:] },
		},
		{ // a controller whose UID stays, with a name that the garbage collector does not find
			func(o []metav1.OwnerReference) []metav1.OwnerReference {
				o[0].Name = "none"
				return append(o, mine)
			},
		},
		{ // a controller that becomes an owner first
			func(o []metav1.OwnerReference) []metav1.OwnerReference { return append(o, mine) },
			func(o []metav1.OwnerReference) []metav1.OwnerReference {
				o[0].Controller, o[1].Controller = nil, new(true)
				return o
			},
		},
	} {
		for n, step := range steps {
			err := byChanging(func(p *corev1.Pod) { p.OwnerReferences = step(slices.Clone(p.OwnerReferences)) })(t, pods[i])
			if n < len(steps)-1 && err != nil {
				t.Errorf("way %d, step %d: %v", i, n, err)
			}
			if n == len(steps)-1 {
				refusedBy(t, err, "web")
			}
			env.Read(t, client.ObjectKeyFromObject(pods[i]), pods[i])
		}
	}
}

// A pod whose controller does not exist lives as long as another owner does: a user may not take that owner away, and may
// do so where the controller lives. The garbage collector takes away owners that do not exist.
func TestTheLastOwnerOfAPodIsJudged(t *testing.T) {
	serve(t)
	ns := guarded(t)
	pub := aBudget(ns, "web", "web", intstr.FromInt32(0))
	pub.Spec.MaxUnavailable, pub.Spec.MinAvailable = nil, new(intstr.FromInt32(2))
	put(t, pub)
	set, pods := podsOf(t, ns, 2)
	kind := appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	lives, ghost := metav1.NewControllerRef(set.StatefulSet, kind), metav1.NewControllerRef(&metav1.ObjectMeta{Name: "none", UID: "none"}, kind)
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "mine", UID: "mine"}
	env.Change(t, pods[0], func() { pods[0].OwnerReferences = []metav1.OwnerReference{*lives, other} })
	last := controlled(ns, "last", set.StatefulSet, kind)
	last.OwnerReferences = []metav1.OwnerReference{*ghost, other}
	put(t, last)
	env.Remove(t, pods[1]) // two pods are left
	part := func(user string, pod *corev1.Pod) error {
		after := pod.DeepCopy()
		after.OwnerReferences = after.OwnerReferences[:1]
		return as(t, user).Update(t.Context(), after)
	}
	if err := part("jane", pods[0]); err != nil {
		t.Errorf("the controller lives: %v", err)
	}
	refusedBy(t, part("jane", last), "web")
	if err := part(systemAccount+"generic-garbage-collector", last); err != nil {
		t.Errorf("the garbage collector: %v", err)
	}
}

// A ReplicaSet that is deleted alone, in whatever way, is no teardown while its Deployment lives. A budget of the
// Deployment goes on to cover the pods.
func TestAReplicaSetThatIsDeletedAloneIsJudged(t *testing.T) {
	serve(t)
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		t.Run(string(policy), func(t *testing.T) {
			ns := guarded(t)
			template := testenv.AStatefulSet("web", 2).Spec.Template
			template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "5d4c"
			selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(2)), Selector: selector, Template: template,
			}}
			put(t, d)
			set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-5d4c"}, Spec: appsv1.ReplicaSetSpec{
				Replicas: new(int32(2)), Selector: selector, Template: template,
			}}
			set.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
			bySelector, byTarget := aBudget(ns, "selector", "web", intstr.FromInt32(0)), aBudget(ns, "target", "web", intstr.FromInt32(0))
			byTarget.Spec.Selector = nil
			byTarget.Spec.TargetReference = &policyv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
			put(t, set)
			pod := controlled(ns, "web-5d4c-a", set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
			pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "5d4c"
			put(t, pod)
			if err := env.Client.Delete(t.Context(), set, client.PropagationPolicy(policy)); err != nil {
				t.Fatal(err)
			}
			testenv.Eventually(t, func() error {
				err := serving.GetCache().Get(t.Context(), client.ObjectKeyFromObject(set), set)
				if err == nil && set.DeletionTimestamp == nil || client.IgnoreNotFound(err) != nil {
					return fmt.Errorf("the cache shows the ReplicaSet without a deletion, error %w", err)
				}
				return nil
			})
			collect := byDeleting(systemAccount + "generic-garbage-collector")
			for _, pub := range []*policyv1beta1.PodUnavailableBudget{bySelector, byTarget} {
				put(t, pub)
				refusedBy(t, collect(t, pod), pub.Name)
				env.Remove(t, pub)
				forgotten(t, pub)
			}
			put(t, aBudget(ns, "web", "web", intstr.FromInt32(0)))
			env.Remove(t, d)
			forgotten(t, d)
			if err := collect(t, pod); err != nil {
				t.Errorf("the Deployment is deleted, too: %v", err)
			}
		})
	}
}
