package installation_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/cluster"
	"github.com/limpet-io/limpet/internal/controller/installation"
	"github.com/limpet-io/limpet/internal/evict"
	"github.com/limpet-io/limpet/internal/testenv"
)

// A replica leaves the node of the leader once another node could take it for a minute, and not
// before. The leader stays.
func TestAReplicaLeavesTheNodeOfTheLeader(t *testing.T) {
	ns, needs := env.Namespace(t), cluster.Needs{
		Objects: []cluster.Need{cluster.Of[*corev1.Pod](), cluster.Of[*corev1.Node]()}, Indexes: []cluster.Index{cluster.PodsByNode()},
	}
	shared := testenv.ANode(env.Name("node")).WithRoom(20, 8)
	env.Create(t, shared.Node)
	pods := map[string]*corev1.Pod{}
	for _, name := range []string{"leader", "other"} {
		pod := testenv.APod(name).In(ns).On(shared.Name).Ready().Pod
		pod.Labels = map[string]string{"app.kubernetes.io/name": "limpet-controller"}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: new(true)}}
		env.Create(t, pod)
		pods[name] = pod
	}
	cached := env.RunCache(t, cluster.CacheOptions(needs), func(i client.FieldIndexer) error { return cluster.AddIndexes(t.Context(), i, needs) })
	at := clocktesting.NewFakeClock(time.Now())
	replica := func(name string) *installation.Apart {
		return &installation.Apart{
			Cached: cached, Live: env.Client, Evictor: &evict.Evictor{Client: env.Client}, Clock: at,
			Leader: func() string { return "leader_1" }, Pod: client.ObjectKeyFromObject(pods[name]),
		}
	}
	both := map[string]*installation.Apart{"leader": replica("leader"), "other": replica("other")}
	look := func(want bool) {
		t.Helper()
		for name, a := range both {
			if err := a.Look(t.Context()); err != nil {
				t.Fatal(err)
			}
			var pod corev1.Pod
			err := env.Client.Get(t.Context(), a.Pod, &pod)
			there := !apierrors.IsNotFound(err) && pod.DeletionTimestamp == nil
			if there != (name == "leader" || want) {
				t.Fatalf("replica %s: there %t, %v", name, there, err)
			}
		}
	}
	look(true)
	at.Step(2 * time.Minute)
	look(true) // there is no other node
	late := testenv.ANode(env.Name("node")).WithRoom(20, 8)
	env.Create(t, late.Node)
	testenv.Eventually(t, func() error { return cached.Get(t.Context(), client.ObjectKeyFromObject(late.Node), &corev1.Node{}) })
	testenv.Eventually(t, func() error {
		if node, err := cluster.Node(t.Context(), cached, late.Name); err != nil || len(node.Spec.Taints) > 0 || len(node.Status.Conditions) == 0 {
			return apierrors.NewConflict(corev1.Resource("nodes"), late.Name, err)
		}
		return nil
	})
	look(true)
	at.Step(59 * time.Second)
	look(true)
	at.Step(time.Second)
	look(false)
}
