package evict_test

import (
	"os"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/evict"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, limpetv1alpha1.AddToScheme, policyv1beta1.AddToScheme))
}

func TestOnlyThePodThatWasReadIsDeleted(t *testing.T) {
	ns := env.Namespace(t)
	evictor := &evict.Evictor{Client: env.Client}

	changed := testenv.APod("changed").In(ns)
	env.Create(t, changed.Pod)
	read := changed.DeepCopy()
	if err := env.Client.Update(t.Context(), changed.With("k", "v").Pod); err != nil {
		t.Fatal(err)
	}
	if deleted, err := evictor.Delete(t.Context(), read); deleted || !apierrors.IsConflict(err) {
		t.Errorf("a pod that changed since: deleted %t, error %v; want a conflict", deleted, err)
	}

	former := testenv.APod("replaced").In(ns)
	env.Create(t, former.Pod)
	read = former.DeepCopy()
	if err := env.Client.Delete(t.Context(), former.Pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	if deleted, err := evictor.Delete(t.Context(), read); deleted || err != nil {
		t.Errorf("a pod that is gone: deleted %t, error %v; want neither", deleted, err)
	}
	next := testenv.APod("replaced").In(ns)
	env.Create(t, next.Pod)
	if deleted, err := evictor.Delete(t.Context(), read); deleted || !apierrors.IsConflict(err) {
		t.Errorf("another pod of the same name: deleted %t, error %v; want a conflict", deleted, err)
	}
	if deleted, err := evictor.Delete(t.Context(), next.Pod); !deleted || err != nil {
		t.Errorf("the pod that was read: deleted %t, error %v", deleted, err)
	}
}

// A pod that its silent node has not started is gone at once, unless the kubelet has written
// its status since the pod was read.
func TestAnUnstartedPodIsDeletedWithoutItsKubelet(t *testing.T) {
	ns, node := env.Namespace(t), env.Node(t)
	evictor := &evict.Evictor{Client: env.Client}

	started := testenv.APod("started").In(ns).On(node.Name)
	env.Create(t, started.Pod)
	read := started.DeepCopy()
	started.Status.StartTime = &metav1.Time{Time: time.Now()}
	if err := env.Client.Status().Update(t.Context(), started.Pod); err != nil {
		t.Fatal(err)
	}
	if deleted, err := evictor.DeleteUnstarted(t.Context(), read); deleted || !apierrors.IsConflict(err) {
		t.Errorf("a pod that has started since: deleted %t, error %v; want a conflict", deleted, err)
	}

	pod := testenv.APod("unstarted").In(ns).On(node.Name)
	env.Create(t, pod.Pod)
	if deleted, err := evictor.DeleteUnstarted(t.Context(), pod.Pod); !deleted || err != nil {
		t.Errorf("a pod that has not started: deleted %t, error %v", deleted, err)
	}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod.Pod), pod.Pod); !apierrors.IsNotFound(err) {
		t.Errorf("get it: %v, want it gone, as no kubelet would end its grace period", err)
	}
}
