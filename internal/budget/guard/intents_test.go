package guard_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// controlled makes a pod of the application web that an object controls.
func controlled(ns, name string, by client.Object, kind schema.GroupVersionKind) *corev1.Pod {
	pod := testenv.APod(name).In(ns).On("n1").Ready().Pod
	pod.Labels, pod.OwnerReferences = map[string]string{"app": "web"}, []metav1.OwnerReference{*metav1.NewControllerRef(by, kind)}
	return pod
}

// kruise is the user of the controllers of OpenKruise.
const kruise = "system:serviceaccount:kruise-system:kruise-manager"

// ofKind makes a workload of a kind outside Kubernetes, and waits until the guard's caches have it.
func ofKind(t *testing.T, kind schema.GroupVersionKind, ns string, spec map[string]any) client.Object {
	t.Helper()
	o := env.OfKind(t, kind, ns, "web", spec)
	testenv.Eventually(t, func() error {
		if !slices.Contains(registry.Held(), kind) {
			return fmt.Errorf("the cache holds no %s", kind.Kind)
		}
		store, err := cluster.StoreOf[client.Object](t.Context(), serving.GetCache(), workloads.Short(kind))
		if err != nil {
			return err
		}
		if _, found := store.Get(ns, "web"); !found {
			return fmt.Errorf("the cache has no %s of namespace %s", kind.Kind, ns)
		}
		return nil
	})
	return o
}

// What the owner of a workload asks for is allowed and counted, also by a budget without a unit: no other end than a
// looser budget would come. A user who asks for the same pods is refused.
func TestIntentsOfTheOwnerPass(t *testing.T) {
	serve(t)
	env.ServeKinds(t)
	env.ServeKind(t, testenv.CloneSets)
	template := testenv.AStatefulSet("web", 2).Spec.Template
	selector := &metav1.LabelSelector{MatchLabels: template.Labels}
	for name, tc := range map[string]struct {
		by      string // the user of the controller of the workload, or its name in kube-system
		make    func(t *testing.T, ns string) (client.Object, schema.GroupVersionKind)
		counted string // the vector of the entry
	}{
		"a Deployment that recreates its pods": {"replicaset-controller", func(t *testing.T, ns string) (client.Object, schema.GroupVersionKind) {
			d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(2)), Selector: selector, Template: template, Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType},
			}}
			put(t, d)
			old := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-1"}, Spec: appsv1.ReplicaSetSpec{
				Replicas: new(int32(0)), Selector: selector, Template: template,
			}}
			old.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
			put(t, old)
			return old, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")
		}, "teardown"},
		"a Job past its deadline": {"job-controller", func(t *testing.T, ns string) (client.Object, schema.GroupVersionKind) {
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: batchv1.JobSpec{
				Parallelism: new(int32(2)), ActiveDeadlineSeconds: new(int64(1)), Template: *template.DeepCopy(),
			}}
			job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
			put(t, job)
			return job, batchv1.SchemeGroupVersion.WithKind("Job")
		}, "teardown"},
		"a StatefulSet that is scaled to zero": {"statefulset-controller", func(t *testing.T, ns string) (client.Object, schema.GroupVersionKind) {
			set := testenv.AStatefulSet("web", 0).In(ns)
			put(t, set.StatefulSet)
			return set.StatefulSet, appsv1.SchemeGroupVersion.WithKind("StatefulSet")
		}, "scale-in"},
		"a DaemonSet that wants none": {"daemon-set-controller", func(t *testing.T, ns string) (client.Object, schema.GroupVersionKind) {
			set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template}}
			put(t, set)
			return set, appsv1.SchemeGroupVersion.WithKind("DaemonSet")
		}, "scale-in"},
		"a ReplicationController that is scaled to zero": {"replication-controller", func(t *testing.T, ns string) (client.Object, schema.GroupVersionKind) {
			rc := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: corev1.ReplicationControllerSpec{
				Replicas: new(int32(0)), Selector: template.Labels, Template: template.DeepCopy(),
			}}
			put(t, rc)
			return rc, corev1.SchemeGroupVersion.WithKind("ReplicationController")
		}, "scale-in"},
		"a CloneSet that is scaled to zero": {kruise, func(t *testing.T, ns string) (client.Object, schema.GroupVersionKind) {
			return ofKind(t, testenv.CloneSets, ns, map[string]any{"replicas": int64(0)}), testenv.CloneSets
		}, "scale-in"},
		"a workload of a named kind that is scaled to zero": {"system:serviceaccount:games:operator", func(t *testing.T, ns string) (client.Object, schema.GroupVersionKind) {
			return ofKind(t, testenv.GameServers, ns, map[string]any{"size": int64(0)}), testenv.GameServers
		}, "scale-in"},
	} {
		t.Run(name, func(t *testing.T) {
			user := tc.by
			if !strings.Contains(user, ":") {
				user = systemAccount + tc.by
			}
			ns := guarded(t)
			pub := aBudget(ns, "web", "web", intstr.FromInt32(0))
			pub.Spec.MaxUnavailable, pub.Spec.MinAvailable = nil, new(intstr.FromInt32(2))
			put(t, pub)
			owner, kind := tc.make(t, ns)
			pods := []*corev1.Pod{controlled(ns, "web-a", owner, kind), controlled(ns, "web-b", owner, kind)}
			put(t, pods[0], pods[1])
			refusedBy(t, byDeleting("jane")(t, pods[0]), "web")
			for _, pod := range pods {
				if err := byDeleting(user)(t, pod); err != nil {
					t.Errorf("deletion of %s: %v", pod.Name, err)
				}
			}
			counted := 0
			for _, book := range booksOf(t, ns) {
				for _, d := range book.Decisions {
					if d.Vector == tc.counted && d.Verdict != "Refused" {
						counted++
					}
				}
			}
			if counted != len(pods) {
				t.Errorf("%d pods are counted as %s, want %d", counted, tc.counted, len(pods))
			}
		})
	}
}

// The garbage collector may take the pods from a workload that is deleted without them. They stay, and no user may do
// the same.
func TestAWorkloadMayLeaveItsPods(t *testing.T) {
	serve(t)
	ns := guarded(t)
	pub := aBudget(ns, "web", "web", intstr.FromInt32(0))
	pub.Spec = policyv1beta1.PodUnavailableBudgetSpec{
		MinAvailable: new(intstr.FromInt32(2)), TargetReference: &policyv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web"},
	}
	put(t, pub)
	set, pods := podsOf(t, ns, 2)
	orphan := func(user string, pod *corev1.Pod) error {
		after := pod.DeepCopy()
		after.OwnerReferences = nil
		return as(t, user).Update(t.Context(), after)
	}
	refusedBy(t, orphan(systemAccount+"generic-garbage-collector", pods[0]), "web")
	if err := env.Client.Delete(t.Context(), set.StatefulSet, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		if err := serving.GetCache().Get(t.Context(), client.ObjectKeyFromObject(set), set.StatefulSet); err != nil || set.DeletionTimestamp == nil {
			return fmt.Errorf("the cache shows the set without a deletion, error %w", err)
		}
		return nil
	})
	refusedBy(t, orphan("jane", pods[0]), "web")
	for _, pod := range pods {
		if err := orphan(systemAccount+"generic-garbage-collector", pod); err != nil {
			t.Errorf("the garbage collector takes pod %s: %v", pod.Name, err)
		}
	}
}

// The same holds for a workload of a kind outside Kubernetes.
func TestACloneSetMayLeaveItsPods(t *testing.T) {
	serve(t)
	env.ServeKind(t, testenv.CloneSets)
	env.AggregateRights(t)
	ns := guarded(t)
	pub := aBudget(ns, "web", "web", intstr.FromInt32(0))
	pub.Spec.MaxUnavailable, pub.Spec.MinAvailable = nil, new(intstr.FromInt32(2))
	put(t, pub)
	set := ofKind(t, testenv.CloneSets, ns, map[string]any{"replicas": int64(1)})
	pod := controlled(ns, "web-a", set, testenv.CloneSets)
	put(t, pod)
	orphan := func(user string) error {
		after := pod.DeepCopy()
		after.OwnerReferences = nil
		return as(t, user).Update(t.Context(), after)
	}
	refusedBy(t, orphan("jane"), "web")
	refusedBy(t, orphan(kruise), "web")
	refusedBy(t, orphan(systemAccount+"generic-garbage-collector"), "web")
	if err := env.Client.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationOrphan)); err != nil {
		t.Fatal(err)
	}
	refusedBy(t, orphan("jane"), "web")
	testenv.Eventually(t, func() error { return orphan(systemAccount + "generic-garbage-collector") })
	env.Patch(t, set, `{"metadata":{"finalizers":null}}`) // as the garbage collector does at the end
}
