package creation_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/testenv"
)

// The pods of a named kind may have a further owner between, of a kind that was named, too. The
// path of the kind tells its size. Pods of a StatefulSet between are counted, not assigned.
func TestPodsBelowANamedKindAreSpread(t *testing.T) {
	serve(t)
	env.ServeSpreadKinds(t)
	ns := env.Namespace(t)
	game := env.OfKind(t, testenv.GameServers, ns, "game", map[string]any{"size": int64(4)})
	owner := *metav1.NewControllerRef(game, testenv.GameServers)
	room := env.OfKind(t, testenv.GameRooms, ns, "room", map[string]any{}, owner)
	set := testenv.AStatefulSet("stage", 4).In(ns).StatefulSet
	set.OwnerReferences = []metav1.OwnerReference{owner}
	put(t, set)
	env.Create(t, aSpread(ns, "game", "example.com/v1", "GameServerSet", "game", "a=25%", "b=25%", "c"))
	inRoom := func(name string) *corev1.Pod { return testenv.APod(name).Of(room, testenv.GameRooms).Pod }
	sent(t, inRoom("probe"))
	foreseen(t, "a", inRoom("probe")) // both replicas know the kinds a moment later
	placed(t, "a b c", inRoom("x"), testenv.APod("stage-0").In(ns).OwnedBy(set).Pod, inRoom("y"))
	forged := env.OfKind(t, testenv.GameRooms, ns, "forged", map[string]any{}, owner)
	forged.SetUID("of-another")
	placed(t, "", testenv.APod("z").Of(forged, testenv.GameRooms).Pod)
}

// The pods of a Rollout are spread through its ReplicaSets, each by itself as the revisions of a
// Deployment. The scale subresource of the Rollout tells its size.
func TestPodsOfARolloutAreSpread(t *testing.T) {
	serve(t)
	env.ServeRollouts(t)
	ns := env.Namespace(t)
	rollout := env.OfKind(t, testenv.Rollouts, ns, "web", map[string]any{"replicas": int64(4)})
	sets := []*appsv1.ReplicaSet{env.SetOfRollout(t, rollout, "web-1", 4), env.SetOfRollout(t, rollout, "web-2", 4)}
	env.Create(t, aSpread(ns, "web", "argoproj.io/v1alpha1", "Rollout", "web", "a=25%", "b=25%", "c"))
	for _, set := range sets {
		sent(t, generated(set))
		foreseen(t, "a", generated(set))
		placed(t, "a b c", some(set, 3)...)
	}
}

// The size of a workload that was read before a pod was created does not count: the workload has grown since.
func TestASizeFromBeforeACreationDoesNotCount(t *testing.T) {
	serve(t)
	env.ServeRollouts(t)
	ns := env.Namespace(t)
	rollout := env.OfKind(t, testenv.Rollouts, ns, "web", map[string]any{"replicas": int64(0)})
	set := env.SetOfRollout(t, rollout, "web-1", 4)
	env.Create(t, aSpread(ns, "web", "argoproj.io/v1alpha1", "Rollout", "web", "a=50%", "b"))
	sent(t, generated(set))
	foreseen(t, "b", generated(set))
	env.Patch(t, rollout, `{"spec":{"replicas":4}}`)
	placed(t, "a a b b", some(set, 4)...)
}
