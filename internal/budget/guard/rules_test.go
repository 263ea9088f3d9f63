package guard_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

const replicaSets = systemAccount + "replicaset-controller"

// A pod that its budget does not protect may go though no unit is left, and counts as away.
func TestPodsThatAreExemptMayGo(t *testing.T) {
	serve(t)
	for what, exempt := range map[string]func(*corev1.Pod, *policyv1beta1.PodUnavailableBudget){
		"by an annotation": func(pod *corev1.Pod, _ *policyv1beta1.PodUnavailableBudget) {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, policyv1beta1.AnnotationNoProtect, "true")
		},
		"by the selector of the budget": func(pod *corev1.Pod, pub *policyv1beta1.PodUnavailableBudget) {
			metav1.SetMetaDataLabel(&pod.ObjectMeta, "canary", "true")
			pub.Spec.IgnoredPodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"canary": "true"}}
		},
	} {
		t.Run(what, func(t *testing.T) {
			ns := guarded(t)
			pub, set := aBudget(ns, "web", "web", intstr.FromInt32(1)), testenv.AStatefulSet("web", 3).In(ns)
			one, two, plain := aPod(set, 0), aPod(set, 1), aPod(set, 2)
			exempt(one, pub)
			exempt(two, pub)
			put(t, pub, set.StatefulSet, one, two, plain)
			for _, pod := range []*corev1.Pod{one, two} {
				if err := evictAs(t.Context(), env.Client, pod); err != nil {
					t.Errorf("evict pod %s: %v", pod.Name, err)
				}
			}
			refusedBy(t, evictAs(t.Context(), env.Client, plain), "web")
		})
	}
}

// A budget that lists operations protects from those alone.
func TestOnlyTheListedOperationsAreJudged(t *testing.T) {
	serve(t)
	ns := guarded(t)
	pub, set := aBudget(ns, "web", "web", intstr.FromInt32(0)), testenv.AStatefulSet("web", 3).In(ns)
	pub.Spec.ProtectOperations = []policyv1beta1.Operation{policyv1beta1.OperationEvict}
	pods := []*corev1.Pod{aPod(set, 0), aPod(set, 1)}
	put(t, pub, set.StatefulSet, pods[0], pods[1])
	refusedBy(t, evictAs(t.Context(), env.Client, pods[0]), "web")
	if err := deleteAs(t.Context(), env.Client, pods[1]); err != nil {
		t.Errorf("delete: %v", err)
	}
}

// A budget that is made stricter holds before any reconcile of its status.
func TestATightenedBudgetHoldsAtOnce(t *testing.T) {
	serve(t)
	ns := guarded(t)
	pub, pods := web(t, ns, 3, intstr.FromString("100%"))
	if err := evictAs(t.Context(), env.Client, pods[0], metav1.DryRunAll); err != nil {
		t.Fatalf("before: %v", err)
	}
	env.Change(t, pub, func() { pub.Spec.MaxUnavailable = new(intstr.FromInt32(0)) })
	known(t, serving.GetCache(), pub)
	refusedBy(t, evictAs(t.Context(), env.Client, pods[0]), "web")
}

// Pods that run and are not Ready stay while the budget is short, where the budget says so.
func TestPodsThatAreNotReadyAreProtectedWhereAsked(t *testing.T) {
	serve(t)
	ns := guarded(t)
	pub, set := aBudget(ns, "web", "web", intstr.FromInt32(1)), testenv.AStatefulSet("web", 3).In(ns)
	pub.Annotations = map[string]string{policyv1beta1.AnnotationProtectUnready: "true"}
	put(t, pub, set.StatefulSet)
	var pods []*corev1.Pod
	for i := range 3 {
		pod := aPod(set, i)
		if i < 2 {
			pod.Status.Conditions[0].Status = corev1.ConditionFalse
		}
		put(t, pod)
		pods = append(pods, pod)
	}
	for _, pod := range pods[:2] {
		refusedBy(t, evictAs(t.Context(), env.Client, pod), "web")
	}
	repaired := pods[1]
	repaired.Status.Conditions[0].Status = corev1.ConditionTrue
	if err := env.Client.Status().Update(t.Context(), repaired); err != nil {
		t.Fatal(err)
	}
	known(t, serving.GetCache(), repaired)
	if err := evictAs(t.Context(), env.Client, pods[0]); err != nil {
		t.Errorf("the only broken pod: %v", err)
	}
}

// A Deployment that is scaled in may lose the pods that it wants no longer, and its further pods
// by the budget of the new size.
func TestAScaleInIsJudgedByTheNewSize(t *testing.T) {
	serve(t)
	ns := guarded(t)
	pub := aBudget(ns, "web", "web", intstr.FromInt32(0))
	put(t, pub)
	pods := deployed(t, ns, 4)
	refusedBy(t, deleteAs(t.Context(), as(t, replicaSets), pods[0]), "web")
	resize := func(o *appsv1.ReplicaSet, d *appsv1.Deployment) {
		env.Change(t, d, func() { d.Spec.Replicas = new(int32(3)) })
		env.Change(t, o, func() { o.Spec.Replicas = new(int32(3)) })
		known(t, serving.GetCache(), d)
		known(t, serving.GetCache(), o)
	}
	resize(&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-1"}}, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}})
	if err := deleteAs(t.Context(), as(t, replicaSets), pods[0]); err != nil {
		t.Errorf("the surplus pod: %v", err)
	}
	refusedBy(t, deleteAs(t.Context(), as(t, replicaSets), pods[1]), "web")
}

// The rollouts of several workloads share a budget of all their pods.
func TestRolloutsOfTwoWorkloadsShareABudget(t *testing.T) {
	serve(t)
	ns := guarded(t)
	pub := aBudget(ns, "all", "", intstr.FromInt32(1))
	pub.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"part-of": "shop"}}
	put(t, pub)
	var first []*corev1.Pod
	for _, name := range []string{"front", "back"} {
		set := testenv.AStatefulSet(name, 2).In(ns)
		put(t, set.StatefulSet)
		for i := range 2 {
			pod := aPod(set, i)
			pod.Labels = map[string]string{"app": name, "part-of": "shop"}
			put(t, pod)
			if i == 0 {
				first = append(first, pod)
			}
		}
	}
	rollout := as(t, systemAccount+"statefulset-controller")
	if err := deleteAs(t.Context(), rollout, first[0]); err != nil {
		t.Errorf("the first rollout: %v", err)
	}
	refusedBy(t, deleteAs(t.Context(), rollout, first[1]), "all")
}

// Requests that take no pod away are not judged, whatever they write.
func TestStatusAndEphemeralContainersAreNotJudged(t *testing.T) {
	serve(t)
	ns := guarded(t)
	_, pods := web(t, ns, 2, intstr.FromInt32(0))
	pods[0].Status.Message = "x"
	if err := env.Client.Status().Update(t.Context(), pods[0]); err != nil {
		t.Errorf("status: %v", err)
	}
	pods[1].Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "example.com/debug"},
	}}
	if err := env.Client.SubResource("ephemeralcontainers").Update(t.Context(), pods[1]); err != nil {
		t.Errorf("ephemeral containers: %v", err)
	}
}

// The pods of a workload of another kind are found by their controller, and counted by its scale.
func TestABudgetOfAKindWithAScale(t *testing.T) {
	serve(t)
	env.ServeKinds(t)
	ns := guarded(t)
	game := gameServers(t, ns, 3)
	pub := aBudget(ns, "game", "", intstr.FromInt32(1))
	pub.Spec.Selector = nil
	pub.Spec.TargetReference = &policyv1beta1.TargetReference{APIVersion: "example.com/v1", Kind: "GameServerSet", Name: "game"}
	put(t, pub)
	var pods []*corev1.Pod
	for i := range 3 {
		pod := testenv.APod(fmt.Sprintf("game-%d", i)).In(ns).On("n1").Ready().Pod
		pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(game, testenv.GameServers)}
		put(t, pod)
		pods = append(pods, pod)
	}
	if err := evictAs(t.Context(), env.Client, pods[0]); err != nil {
		t.Errorf("the first pod: %v", err)
	}
	refusedBy(t, evictAs(t.Context(), env.Client, pods[1]), "game")
}
