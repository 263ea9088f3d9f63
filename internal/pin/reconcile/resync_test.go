package reconcile_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	controller "github.com/limpet-io/limpet/internal/pin/reconcile"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func TestResyncContinuesAfterARefusal(t *testing.T) {
	list := &appsv1.StatefulSetList{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSetList"}}
	for _, name := range []string{"a", "b"} {
		set := appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
		set.Spec.Template.Annotations = map[string]string{reservation.RetainAnnotation: "10"}
		list.Items = append(list.Items, set)
	}
	c, patches := refusing(t, list, http.StatusForbidden, metav1.StatusReasonForbidden)
	clock := clocktesting.NewFakeClock(time.Unix(0, 0))
	n := &controller.Resyncer{Client: c, Workloads: &workloads.Reader{Registry: workloads.NewRegistry()}, Clock: clock}
	if err := n.Resync(t.Context()); err != nil {
		t.Fatalf("at the first look: %v, want that no workload is resynced yet", err)
	}
	clock.Step(2 * time.Second)
	err := n.Resync(t.Context())
	if err == nil || !strings.Contains(err.Error(), "default/a") || !strings.Contains(err.Error(), "default/b") {
		t.Errorf("error %v, want it to name both StatefulSets", err)
	}
	clock.Step(2 * time.Second)
	if err := n.Resync(t.Context()); err != nil {
		t.Errorf("two seconds later: %v, want none of them resynced", err)
	}
	clock.Step(4 * time.Second)
	if err := n.Resync(t.Context()); err == nil {
		t.Error("eight seconds after they were seen: want them resynced again")
	}
	if n := len(patches()); n != 4 {
		t.Errorf("%d patches, want 4", n)
	}
}

// TestTheSearchReadsFewStatefulSets has the index hold those alone that the search every two seconds has to read: a set
// that has all its pods lacks none.
func TestTheSearchReadsFewStatefulSets(t *testing.T) {
	for name, tc := range map[string]struct {
		replicas, is int32
		want         bool
	}{
		"lacks a pod":    {replicas: 3, is: 2, want: true},
		"has all":        {replicas: 3, is: 3},
		"is scaled away": {},
	} {
		t.Run(name, func(t *testing.T) {
			set := testenv.AStatefulSet("web", tc.replicas).StatefulSet
			set.Status.Replicas = tc.is
			if got := controller.LacksPods(set); got != tc.want {
				t.Errorf("read by the search: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestAStatefulSetWhosePodWasRefusedIsWokenUp(t *testing.T) {
	m := newManager(t)
	m.start(t, m.resyncer())
	set := testenv.AStatefulSet("web", 1).In(env.Namespace(t))
	set.Spec.Template.Annotations = map[string]string{reservation.RetainAnnotation: "10"}
	env.Create(t, set.StatefulSet)
	nudged(t, set.StatefulSet)
}

// TestWorkloadsOfAClosedNamespaceAreWokenUp has workloads that ask for no reservation lack their pods. Only where new
// pods are refused while no planner of spreads answers, their controllers are made to try again.
func TestWorkloadsOfAClosedNamespaceAreWokenUp(t *testing.T) {
	m := newManager(t)
	m.start(t, m.resyncer())
	label := func(value string) string {
		ns := env.Namespace(t)
		env.Patch(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, appsv1beta1.LabelSpreads, value))
		return ns
	}
	lacking := func(ns string) []client.Object {
		set := testenv.AStatefulSet("web", 1).In(ns).StatefulSet
		replicas := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: appsv1.ReplicaSetSpec{Selector: set.Spec.Selector, Template: set.Spec.Template}}
		replicas.Status.Conditions = pin.FailedCreate
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: batchv1.JobSpec{Template: *set.Spec.Template.DeepCopy()}}
		job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
		env.Create(t, set, replicas, job)
		return []client.Object{set, replicas, job}
	}
	open := lacking(label(appsv1beta1.LabelSpreadsOpen))
	for _, closed := range lacking(label(appsv1beta1.LabelSpreadsClosed)) {
		nudged(t, closed)
	}
	for _, w := range open {
		env.Read(t, client.ObjectKeyFromObject(w), w)
		if at, was := w.GetAnnotations()[workloads.AnnotationNudged]; was {
			t.Errorf("a %T whose pods are not refused was woken up at %s", w, at)
		}
	}
}

// TestWorkloadsOfFurtherKindsAreWokenUp has workloads that no PersistentPodState names lack pods in a closed namespace. A
// workload whose pods are all there is left alone, although its status is old. So is a workload that waits for a lower
// ordinal.
func TestWorkloadsOfFurtherKindsAreWokenUp(t *testing.T) {
	env.ServeKinds(t)
	env.ServeKind(t, testenv.CloneSets)
	m := newManager(t)
	m.start(t, m.resyncer())
	ns := env.Namespace(t)
	template := testenv.AStatefulSet("web", 1).Spec.Template
	old := &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: corev1.ReplicationControllerSpec{Template: &template}}
	two := map[string]any{"replicas": int64(2)}
	whole, waits := env.OfKind(t, testenv.CloneSets, ns, "whole", two), env.OfKind(t, testenv.KruiseSets, ns, "waits", map[string]any{"replicas": int64(2), "podManagementPolicy": "OrderedReady"})
	half := env.OfKind(t, testenv.KruiseSets, ns, "half", map[string]any{"replicas": int64(2), "podManagementPolicy": "Parallel"})
	env.Create(t, old, testenv.APod("whole-a").Of(whole, testenv.CloneSets).Pod, testenv.APod("whole-b").Of(whole, testenv.CloneSets).Pod,
		testenv.APod("waits-0").Of(waits, testenv.KruiseSets).Pod, testenv.APod("half-0").Of(half, testenv.KruiseSets).Pod)
	lacking := []client.Object{old, env.OfKind(t, testenv.CloneSets, ns, "web", two), env.OfKind(t, testenv.GameServers, ns, "web", two), half}
	env.Patch(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, appsv1beta1.LabelSpreads, appsv1beta1.LabelSpreadsClosed))
	for _, w := range lacking {
		nudged(t, w)
	}
	for _, w := range []client.Object{whole, waits} {
		env.Read(t, client.ObjectKeyFromObject(w), w)
		if at, was := w.GetAnnotations()[workloads.AnnotationNudged]; was {
			t.Errorf("%s was woken up at %s", w.GetName(), at)
		}
	}
}

// nudged waits until a workload that lacks a pod is woken up.
func nudged(t *testing.T, workload client.Object) {
	t.Helper()
	testenv.Eventually(t, func() error {
		env.Read(t, client.ObjectKeyFromObject(workload), workload)
		if workload.GetAnnotations()[workloads.AnnotationNudged] == "" {
			return fmt.Errorf("annotations: %v", workload.GetAnnotations())
		}
		return nil
	})
}
