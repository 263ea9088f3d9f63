package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// The numbers round as those of a PodDisruptionBudget do.
func TestABudgetShowsItsNumbers(t *testing.T) {
	number, percent := intstr.FromInt32, intstr.FromString
	maxUnavailable := func(v intstr.IntOrString) func(*policyv1beta1.PodUnavailableBudget) {
		return func(b *policyv1beta1.PodUnavailableBudget) { b.Spec.MaxUnavailable = &v }
	}
	minAvailable := func(v intstr.IntOrString) func(*policyv1beta1.PodUnavailableBudget) {
		return func(b *policyv1beta1.PodUnavailableBudget) { b.Spec.MaxUnavailable, b.Spec.MinAvailable = nil, &v }
	}
	cases := map[string]struct {
		replicas int32
		pods     int
		edit     func(*policyv1beta1.PodUnavailableBudget)
		want     numbers
	}{
		"a number":                                    {3, 3, maxUnavailable(number(1)), numbers{1, 3, 2, 3}},
		"a percentage is rounded up":                  {5, 5, maxUnavailable(percent("25%")), numbers{2, 5, 3, 5}},
		"none may go":                                 {3, 3, maxUnavailable(percent("0%")), numbers{0, 3, 3, 3}},
		"all may go":                                  {3, 3, maxUnavailable(percent("100%")), numbers{3, 3, 0, 3}},
		"more may go than there are":                  {3, 3, maxUnavailable(number(100)), numbers{3, 3, 0, 3}},
		"a smallest number":                           {3, 3, minAvailable(number(2)), numbers{1, 3, 2, 3}},
		"a smallest percentage is rounded up":         {5, 5, minAvailable(percent("50%")), numbers{2, 5, 3, 5}},
		"more must stay than there are":               {3, 3, minAvailable(number(100)), numbers{0, 3, 100, 3}},
		"a pod that was not created is not available": {3, 2, maxUnavailable(number(1)), numbers{0, 2, 2, 3}},
		"surplus pods of a rollout do not count":      {3, 5, maxUnavailable(number(1)), numbers{1, 5, 2, 3}},
		"a workload that wants no pods":               {0, 2, maxUnavailable(number(1)), numbers{1, 2, 0, 0}},
		"a size that the budget names": {3, 3, func(b *policyv1beta1.PodUnavailableBudget) {
			b.Spec.ProtectTotalReplicas = new(int32(4))
		}, numbers{0, 3, 3, 4}},
		"a size that is the number of pods": {10, 3, func(b *policyv1beta1.PodUnavailableBudget) {
			b.Annotations = map[string]string{policyv1beta1.AnnotationIgnoreScale: "true"}
		}, numbers{1, 3, 2, 3}},
		"a target": {3, 3, func(b *policyv1beta1.PodUnavailableBudget) {
			b.Spec.Selector = nil
			b.Spec.TargetReference = &policyv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: b.Name}
		}, numbers{1, 3, 2, 3}},
	}
	startReconciler(t)
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			set := testenv.AStatefulSet("web", tc.replicas).In(env.Namespace(t))
			pub := aBudget(set.Namespace, "web", number(1))
			tc.edit(pub)
			env.Create(t, set.StatefulSet, pub) // before the pods
			pods(t, set, tc.pods)
			shows(t, pub, tc.want)
		})
	}
}

// A budget follows its pods and its workload.
func TestNumbersFollowWhatHappens(t *testing.T) {
	startReconciler(t)
	set := testenv.AStatefulSet("web", 3).In(env.Namespace(t))
	pub := aBudget(set.Namespace, "web", intstr.FromInt32(1))
	env.Create(t, set.StatefulSet)
	all := pods(t, set, 3)
	env.Create(t, pub) // after the pods
	shows(t, pub, numbers{1, 3, 2, 3})

	env.Patch(t, all[0], `{"metadata":{"labels":{"unavailable-pod.kruise.io/mark":"x"}}}`)
	shows(t, pub, numbers{0, 2, 2, 3})
	env.Patch(t, all[0], `{"metadata":{"labels":{"unavailable-pod.kruise.io/mark":null}}}`)
	shows(t, pub, numbers{1, 3, 2, 3})
	env.Patch(t, all[0], `{"metadata":{"labels":{"app":"other"}}}`) // out of the budget
	shows(t, pub, numbers{0, 2, 2, 3})
	env.Patch(t, all[0], `{"metadata":{"labels":{"app":"web"}}}`)
	shows(t, pub, numbers{1, 3, 2, 3})
	env.Patch(t, set.StatefulSet, `{"spec":{"replicas":2}}`)
	shows(t, pub, numbers{1, 3, 1, 2})
	env.Patch(t, pub, `{"spec":{"maxUnavailable":2}}`)
	shows(t, pub, numbers{2, 3, 0, 2})
	env.Remove(t, all[0])
	env.Remove(t, all[1])
	shows(t, pub, numbers{1, 1, 0, 2})
}

// The size of a Deployment counts through its ReplicaSet, and 0 once it is deleted.
func TestNumbersOfADeployment(t *testing.T) {
	startReconciler(t)
	ns := env.Namespace(t)
	pub := aBudget(ns, "web", intstr.FromInt32(1))
	template := testenv.AStatefulSet("web", 1).Spec.Template
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(2)), Selector: pub.Spec.Selector, Template: template},
	}
	env.Create(t, deployment)
	replicas := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ns, Name: "web-1",
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		},
		Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(2)), Selector: pub.Spec.Selector, Template: template},
	}
	env.Create(t, replicas)
	for i := range 2 {
		pod := testenv.APod(fmt.Sprintf("web-1-%d", i)).Of(replicas, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")).Ready()
		pod.Labels = template.Labels
		env.Create(t, pod.Pod)
	}
	env.Create(t, pub)
	shows(t, pub, numbers{1, 2, 1, 2})
	env.Patch(t, deployment, `{"spec":{"replicas":4}}`)
	shows(t, pub, numbers{0, 2, 3, 4})
	if err := env.Client.Delete(t.Context(), deployment, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	shows(t, pub, numbers{1, 2, 0, 0})
}

// A size that cannot be read lets no pod go, and the condition says why.
func TestASizeThatCannotBeRead(t *testing.T) {
	startReconciler(t)
	ns := env.Namespace(t)
	pub := aBudget(ns, "web", intstr.FromInt32(1))
	pod := testenv.APod("web-0").In(ns).Ready()
	pod.Labels = pub.Spec.Selector.MatchLabels
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Flock", Name: "web", UID: "1", Controller: new(true)}}
	env.Create(t, pod.Pod, pub)
	has(t, pub, policyv1beta1.ConditionDisruptionAllowed, metav1.ConditionFalse, "SizeUnknown", "Flock")
	shows(t, pub, numbers{0, 1, 1, 1})
	env.Patch(t, pub, `{"spec":{"protectTotalReplicas":1}}`)
	has(t, pub, policyv1beta1.ConditionDisruptionAllowed, metav1.ConditionTrue, "NothingProtected", "")
	shows(t, pub, numbers{1, 1, 0, 1})
}

// A burst of pods costs one write of the status a second, not one write each.
func TestABurstOfPodsCostsFewWrites(t *testing.T) {
	const many = 200
	startReconciler(t)
	set := testenv.AStatefulSet("web", many).In(env.Namespace(t))
	pub := aBudget(set.Namespace, "web", intstr.FromInt32(1))
	env.Create(t, set.StatefulSet, pub)
	versions := writes(t, pub)
	var created []*corev1.Pod
	for i := range many {
		pod := testenv.APod(fmt.Sprintf("web-%d", i)).In(set.Namespace).OwnedBy(set.StatefulSet).Pod
		pod.Labels = set.Spec.Selector.MatchLabels
		env.Create(t, pod)
		created = append(created, pod)
	}
	shows(t, pub, numbers{0, 0, many - 1, many})
	before := versions()
	begin := time.Now()
	for _, pod := range created {
		pod.Status = testenv.APod("").Ready().Status
		if err := env.Client.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	shows(t, pub, numbers{1, many, many - 1, many})
	took := time.Since(begin)
	if got, most := versions()-before, int(took.Seconds())+2; got > most {
		t.Errorf("%d writes for %d pods in %v, want at most %d", got, many, took, most)
	}
}

// A change of a pod that no number depends on writes nothing, and neither does the next look.
func TestNothingIsWrittenWithoutAChange(t *testing.T) {
	startReconciler(t)
	pub, _, all := protected(t)
	has(t, pub, policyv1beta1.ConditionEnforced, metav1.ConditionFalse, "WebhookMissing", "")
	count := writes(t, pub)
	for i := range 5 {
		env.Patch(t, all[i%3], fmt.Sprintf(`{"metadata":{"labels":{"round":"%d"}}}`, i))
	}
	env.Annotate(t, pub, "limpet.dev/round", "1") // is a write of the budget
	env.Patch(t, all[0], `{"metadata":{"labels":{"app":"other"}}}`)
	shows(t, pub, numbers{0, 2, 2, 3})
	testenv.Eventually(t, func() error {
		if got := count(); got != 2 {
			return fmt.Errorf("%d writes, want the annotation and the numbers", got)
		}
		return nil
	})
}
