package spread_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// spreadOfGame divides a workload of a further kind over two zones.
func spreadOfGame(t *testing.T, ns string) *appsv1beta1.WorkloadSpread {
	t.Helper()
	ws := &appsv1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ws"}}
	ws.Spec.TargetReference = appsv1beta1.TargetReference{APIVersion: "example.com/v1", Kind: "GameServerSet", Name: "game"}
	ws.Spec.Subsets = []appsv1beta1.WorkloadSpreadSubset{{Name: "x", MaxReplicas: new(intstr.Parse("50%"))}, {Name: "y"}}
	env.Create(t, ws)
	return ws
}

// The size of a named kind is followed as that of a Deployment is, and the pods of objects between
// count. Nothing is started again when the kind is named.
func TestASpreadOfANamedKind(t *testing.T) {
	start(t)
	ns := env.Namespace(t)
	ws := spreadOfGame(t, ns)
	shows(t, ws, "NoSubsetFits") // a percentage of a size that cannot be read
	env.ServeSpreadKinds(t)
	game := env.OfKind(t, testenv.GameServers, ns, "game", map[string]any{"size": int64(4)})
	room := env.OfKind(t, testenv.GameRooms, ns, "room", map[string]any{}, *metav1.NewControllerRef(game, testenv.GameServers))
	pod := testenv.APod("p1").Of(room, testenv.GameRooms).With(match, matched("x")).Pod
	env.Create(t, pod)
	shows(t, ws, "x:1/1 y:0/-1 Placed")
	env.Patch(t, game, `{"spec":{"size":8}}`)
	shows(t, ws, "x:1/3 y:0/-1 Placed")
	env.Remove(t, pod)
	shows(t, ws, "x:0/4 y:0/-1 Placed")
}

// A list of kinds that cannot be read is told on the ConfigMap and on the spreads that it may
// concern. The last valid list stays in force.
func TestAListOfKindsForSpreadsThatCannotBeRead(t *testing.T) {
	start(t)
	env.ServeSpreadKinds(t)
	ns := env.Namespace(t)
	env.OfKind(t, testenv.GameServers, ns, "game", map[string]any{"size": int64(4)})
	ws := spreadOfGame(t, ns)
	shows(t, ws, "x:0/2 y:0/-1 Placed")
	env.NameSpreadKinds(t, "{")
	config := &corev1.ConfigMap{}
	env.Read(t, client.ObjectKey{Namespace: "limpet-system", Name: "kruise-configuration"}, config)
	env.Told(t, config, appsv1beta1.ReasonKindsInvalid, testenv.SpreadKinds)
	shows(t, ws, "x:0/2 y:0/-1 PlacedInvalidWorkloadKinds")
	env.NameSpreadKinds(t, `{"workloads":[{"Group":"example.com","Version":"v1","Kind":"GameServerSet","replicasPath":"spec.size",`+
		`"subResources":[{"Group":"example.com","Version":"v1","Kind":"GameHall"}]}]}`)
	testenv.Eventually(t, func() error {
		var now appsv1beta1.WorkloadSpread
		env.Read(t, client.ObjectKeyFromObject(ws), &now)
		c := meta.FindStatusCondition(now.Status.Conditions, appsv1beta1.ConditionKindsInvalid)
		if c == nil || c.Message != "GameHall of example.com: not served by the API server; remedy: the CRD, or the right to get, list and watch the kind" {
			return fmt.Errorf("condition %+v", c)
		}
		return nil
	})
	env.NameSpreadKinds(t, `{"workloads":[]}`)
	shows(t, ws, "x:0/2 y:0/-1 Placed")
}

// The pods of a CloneSet are one revision of its spread. Adoption adds to them and changes nothing
// that OpenKruise wrote.
func TestPodsOfACloneSetAreAdopted(t *testing.T) {
	start(t)
	env.ServeKind(t, testenv.CloneSets)
	env.AggregateRights(t)
	ns := env.Namespace(t)
	set := env.OfKind(t, testenv.CloneSets, ns, "web", map[string]any{"replicas": int64(4)})
	x := node(t, "x")
	var pods []*corev1.Pod
	for _, revision := range []string{"first", "second"} {
		pod := testenv.APod("web-"+revision).Of(set, testenv.CloneSets).On(x).Ready()
		testenv.ReadyForKruise(testenv.OfKruise(pod.Pod, revision), corev1.ConditionTrue)
		env.Create(t, pod.Pod)
		pods = append(pods, pod.Pod)
	}
	ws := &appsv1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ws"}}
	ws.Spec.TargetReference = appsv1beta1.TargetReference{APIVersion: "apps.kruise.io/v1alpha1", Kind: "CloneSet", Name: "web"}
	ws.Spec.Subsets = []appsv1beta1.WorkloadSpreadSubset{{
		Name: "x", MaxReplicas: new(intstr.Parse("75%")),
		Patch: runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"apps.kruise.io/specified-delete":"false","tier":"hot"}}}`)},
	}, {Name: "y"}}
	env.Create(t, ws)
	for i, revision := range []string{"first", "second"} {
		testenv.KeepsKruise(t, placed(t, pods[i], "x"), revision)
	}
	shows(t, ws, "x:2/1 y:0/-1 Placed")
	var now appsv1beta1.WorkloadSpread
	if env.Read(t, client.ObjectKeyFromObject(ws), &now); len(now.Status.VersionedSubsetStatuses) > 1 {
		t.Errorf("versions %+v, want one", now.Status.VersionedSubsetStatuses)
	}
}
