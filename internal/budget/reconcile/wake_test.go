package reconcile_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// The controller of a StatefulSet waits for minutes after a few refusals. It is woken when a unit is
// free, the longest waiting first, and a set for which a drain waits is not.
func TestAFreeUnitWakesTheControllerThatWaitsLongest(t *testing.T) {
	m := startReconciler(t)
	ns := env.Namespace(t)
	pub := aBudget(ns, "web", intstr.FromInt32(1))
	sets := map[string]testenv.StatefulSet{}
	var waiting []ledger.Waiting
	now := time.Now()
	for i, name := range []string{"first", "second", "drained"} {
		set := testenv.AStatefulSet(name, 1).In(ns)
		env.Create(t, set.StatefulSet)
		pod := testenv.APod(name + "-0").In(ns).OwnedBy(set.StatefulSet).Ready()
		pod.Labels = map[string]string{"app": "web"}
		env.Create(t, pod.Pod)
		by := "system:serviceaccount:kube-system:statefulset-controller"
		if name == "drained" {
			by = "bob"
		}
		sets[name] = set
		waiting = append(waiting, ledger.Waiting{
			UID: string(pod.UID), Pod: pod.Name, By: by, ByWorkload: by != "bob", Since: now.Add(time.Duration(i)*time.Minute - time.Hour), Last: now.Add(-30 * time.Second),
		})
	}
	env.Create(t, pub)
	shows(t, pub, numbers{1, 3, 2, 3})
	m.waits(t, pub, waiting)
	nudged := func(name string) string {
		set := sets[name].DeepCopy()
		env.Read(t, client.ObjectKeyFromObject(set), set)
		return set.Annotations[workloads.AnnotationNudged]
	}
	for _, name := range []string{"first", "second"} { // the first one does not ask again, so that the second one may
		testenv.Eventually(t, func() error {
			if name == "first" && nudged("first") == "" && nudged("second") != "" {
				t.Fatal("the second was woken first")
			}
			if nudged(name) == "" {
				return fmt.Errorf("StatefulSet %s was not woken", name)
			}
			return nil
		})
	}
	if nudged("drained") != "" {
		t.Error("the set for which a drain waits was woken")
	}
}

// waits enters requests that were refused into the book of a budget.
func (m *manager) waits(t *testing.T, pub *policyv1beta1.PodUnavailableBudget, waiting []ledger.Waiting) {
	t.Helper()
	_, err := m.books.Decide(t.Context(), books.OfBudgets(pub.Namespace), func(b ledger.Book) (ledger.Book, bool) {
		for _, w := range waiting {
			b, _ = ledger.Ask(b, w)
		}
		return b, true
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestControllersOfManyKindsAreWoken has a pod of each kind whose controller retries when an annotation of its workload
// changes. A kind that is not served, and a workload that is gone, keep no other from it.
func TestControllersOfManyKindsAreWoken(t *testing.T) {
	env.ServeKinds(t)
	env.ServeKind(t, testenv.CloneSets)
	m := newManager(t)
	r := m.reconciler()
	m.start(t, r, m.watcher(t, r.Kinds))
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 1).In(ns)
	meta, template := metav1.ObjectMeta{Namespace: ns, Name: "web"}, *set.Spec.Template.DeepCopy()
	template.Spec.RestartPolicy = corev1.RestartPolicyAlways
	once := *template.DeepCopy()
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	gone := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "gone", UID: "gone"}}
	type owner struct {
		client.Object
		kind schema.GroupVersionKind
	}
	owners := []owner{
		{gone, schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "NotServed"}},
		{gone, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")},
		{set.StatefulSet, workloads.StatefulSets},
		{&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: set.Spec.Selector, Template: template}}, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")},
		{&appsv1.DaemonSet{ObjectMeta: meta, Spec: appsv1.DaemonSetSpec{Selector: set.Spec.Selector, Template: template}}, appsv1.SchemeGroupVersion.WithKind("DaemonSet")},
		{&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Template: once}}, batchv1.SchemeGroupVersion.WithKind("Job")},
		{&corev1.ReplicationController{ObjectMeta: meta, Spec: corev1.ReplicationControllerSpec{Template: &template}}, corev1.SchemeGroupVersion.WithKind("ReplicationController")},
		{env.OfKind(t, testenv.CloneSets, ns, "web", map[string]any{"replicas": int64(1)}), testenv.CloneSets},
		{env.OfKind(t, testenv.KruiseSets, ns, "web", map[string]any{"replicas": int64(1)}), testenv.KruiseSets},
		{env.OfKind(t, testenv.GameServers, ns, "web", map[string]any{"size": int64(1)}), testenv.GameServers},
	}
	for kind := range cluster.Workloads { // and so the controller has the right to patch each of these
		if kind.Kind != "Deployment" && !slices.ContainsFunc(owners[2:], func(o owner) bool { return o.kind.GroupKind() == kind }) {
			t.Errorf("no %s is to be woken", kind)
		}
	}
	pub := aBudget(ns, "web", intstr.FromInt32(9))
	pub.Spec.ProtectTotalReplicas = new(int32(9))
	env.Create(t, pub)
	var waiting []ledger.Waiting
	now := time.Now()
	for i, owner := range owners {
		if owner.GetUID() == "" {
			env.Create(t, owner.Object)
		}
		pod := testenv.APod(fmt.Sprintf("web-%d", i)).Of(owner, owner.kind).Ready()
		pod.Labels = map[string]string{"app": "web"}
		env.Create(t, pod.Pod)
		waiting = append(waiting, ledger.Waiting{
			UID: string(pod.UID), Pod: pod.Name, By: "system:serviceaccount:kube-system:some-controller", ByWorkload: true, Since: now.Add(-time.Hour), Last: now.Add(-30 * time.Second),
		})
	}
	m.waits(t, pub, waiting)
	for _, owner := range owners[2:] {
		testenv.Eventually(t, func() error {
			env.Read(t, client.ObjectKeyFromObject(owner), owner.Object)
			if owner.GetAnnotations()[workloads.AnnotationNudged] == "" {
				return fmt.Errorf("the %s was not woken", owner.kind.Kind)
			}
			return nil
		})
	}
}
