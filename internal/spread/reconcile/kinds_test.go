package reconcile_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// A spread of a StatefulSet follows its size, and counts its pods.
func TestASpreadOfAStatefulSet(t *testing.T) {
	start(t)
	set := testenv.AStatefulSet("web", 4).In(env.Namespace(t)).StatefulSet
	env.Create(t, set)
	followsIts(t, set, appsv1.SchemeGroupVersion.WithKind("StatefulSet"), "replicas")
}

// A spread of a Job follows its parallelism, and counts its pods.
func TestASpreadOfAJob(t *testing.T) {
	start(t)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "web"}}
	job.Spec.Parallelism, job.Spec.Template.Spec = new(int32(4)), testenv.APod("web").Spec
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	env.Create(t, job)
	followsIts(t, job, batchv1.SchemeGroupVersion.WithKind("Job"), "parallelism")
}

// followsIts fails unless the status of a spread over a workload of 4 follows its size and its pods.
func followsIts(t *testing.T, o client.Object, kind schema.GroupVersionKind, field string) {
	t.Helper()
	ws := spreadOfTwo(t, o.GetNamespace(), kind, o.GetName())
	shows(t, ws, "x:0/2 y:0/-1 Placed")
	env.Patch(t, o, fmt.Sprintf(`{"spec":{%q:8}}`, field)) // before pods: their events would do, too
	shows(t, ws, "x:0/4 y:0/-1 Placed")
	pod := testenv.APod(o.GetName()+"-0").Of(o, kind).With(match, matched("x")).Pod
	env.Create(t, pod)
	shows(t, ws, "x:1/3 y:0/-1 Placed")
	env.Remove(t, pod)
	shows(t, ws, "x:0/4 y:0/-1 Placed")
}

// A spread of a Rollout has the pods of its ReplicaSets, and follows its size. Each ReplicaSet is a
// revision.
func TestASpreadOfARollout(t *testing.T) {
	start(t)
	env.ServeRollouts(t)
	ns := env.Namespace(t)
	rollout := env.OfKind(t, testenv.Rollouts, ns, "web", map[string]any{"replicas": int64(4)})
	ws := spreadOfTwo(t, ns, testenv.Rollouts, "web")
	shows(t, ws, "x:0/2 y:0/-1 Placed")
	x := node(t, "x")
	sets := []*appsv1.ReplicaSet{env.SetOfRollout(t, rollout, "web-1", 4), env.SetOfRollout(t, rollout, "web-2", 4)}
	for _, set := range sets {
		pod := testenv.APod(set.Name+"-a").Of(set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")).On(x).Ready().Pod
		env.Create(t, pod)
		placed(t, pod, "x")
	}
	shows(t, ws, "x:2/0 y:0/-1 Placed")
	env.Patch(t, rollout, `{"spec":{"replicas":8}}`)
	shows(t, ws, "x:2/2 y:0/-1 Placed")
	var now appsv1beta1.WorkloadSpread
	env.Read(t, client.ObjectKeyFromObject(ws), &now)
	for _, set := range sets {
		if v := now.Status.VersionedSubsetStatuses[set.Name]; len(v) != 2 || v[0].Replicas != 1 || v[0].MissingReplicas != 3 {
			t.Errorf("revision %s: %+v of %+v", set.Name, v, now.Status.VersionedSubsetStatuses)
		}
	}
}

// spreadOfTwo divides a workload over two zones, half of its pods in the first one.
func spreadOfTwo(t *testing.T, ns string, kind schema.GroupVersionKind, name string) *appsv1beta1.WorkloadSpread {
	t.Helper()
	ws := &appsv1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ws"}}
	ws.Spec.TargetReference = appsv1beta1.TargetReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: name}
	ws.Spec.Subsets = []appsv1beta1.WorkloadSpreadSubset{{Name: "x", MaxReplicas: new(intstr.Parse("50%"))}, {Name: "y"}}
	env.Create(t, ws)
	return ws
}

// spreadOfGame divides a workload of a further kind over two zones.
func spreadOfGame(t *testing.T, ns string) *appsv1beta1.WorkloadSpread {
	t.Helper()
	return spreadOfTwo(t, ns, testenv.GameServers, "game")
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

// The namespace of OpenKruise names kinds while OpenKruise is installed. Without it, the namespace may be that of a
// tenant.
func TestTheNamespaceOfOpenKruiseCountsWithOpenKruise(t *testing.T) {
	start(t)
	env.ServeSpreadKinds(t)
	env.NameSpreadKinds(t, `{"workloads":[]}`)
	ns := env.Namespace(t)
	env.OfKind(t, testenv.GameServers, ns, "game", map[string]any{"size": int64(4), "other": int64(8), "third": int64(12)})
	ws := spreadOfGame(t, ns)
	shows(t, ws, "x:0/2 y:0/-1 Placed")
	if err := env.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kruise-system"}}); client.IgnoreAlreadyExists(err) != nil {
		t.Fatal(err)
	}
	config := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-system", Name: "kruise-configuration"},
		Data:       map[string]string{testenv.SpreadKinds: `{"workloads":[{"Group":"example.com","Version":"v1","Kind":"GameServerSet","replicasPath":"spec.other"}]}`},
	}
	env.Create(t, config)
	env.NameSpreadKinds(t, `{"workloads":[{"Group":"example.com","Version":"v1","Kind":"GameServerSet","replicasPath":"spec.third"}]}`)
	shows(t, ws, "x:0/6 y:0/-1 Placed")
	env.NameSpreadKinds(t, `{"workloads":[]}`)
	shows(t, ws, "x:0/2 y:0/-1 Placed")
	env.ServeKind(t, testenv.KruiseSets)
	shows(t, ws, "x:0/4 y:0/-1 Placed")
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
