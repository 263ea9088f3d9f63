package reconcile_test

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// A kind is named, served and granted while the controller runs. A condition and an event
// report what is missing yet.
func TestPodsOfAFurtherKindAreRecordedAsItIsNamedServedAndGranted(t *testing.T) {
	startRecorder(t)
	ns, node := env.Namespace(t), env.Node(t)
	game, db := asking(ns, "game", gameServers), asking(ns, "db", kruiseSets)
	env.Create(t, game, db)
	env.Condition(t, game, appsv1beta1.ConditionRecording, metav1.ConditionFalse, appsv1beta1.ReasonTargetUnsupported, gameServers.Kind)
	unread(t, db, "not served")
	env.NameKinds(t)
	unread(t, game, "not served")
	env.ServeKind(t, gameServers)
	env.ServeKind(t, kruiseSets)
	unread(t, game, "forbidden")
	env.Told(t, kindsList(t), appsv1beta1.ReasonKindsInvalid, `remedy: a ClusterRole with the label limpet.dev/aggregate-to-controller: "true"`)
	env.AggregateRights(t)
	servers := aWorkload(t, gameServers, ns, "game", map[string]any{"size": int64(1)})
	isRecorded(t, servers, gameServers, "game-0", node)
	sets := aWorkload(t, kruiseSets, ns, "db", map[string]any{"replicas": int64(2), "reserveOrdinals": []any{"1-3"}})
	isRecorded(t, sets, kruiseSets, "db-4", node)
}

// A malformed list of kinds is reported, and changes nothing.
func TestAListOfKindsThatCannotBeReadChangesNothing(t *testing.T) {
	startRecorder(t)
	ns, node := env.Namespace(t), env.Node(t)
	env.ServeKinds(t)
	game := asking(ns, "game", gameServers)
	env.Create(t, game)
	servers := aWorkload(t, gameServers, ns, "game", map[string]any{"size": int64(1)})
	isRecorded(t, servers, gameServers, "game-0", node)
	config := kindsList(t)
	sound := config.Data[workloads.KindsKey]
	rename(t, "{")
	env.Told(t, config, appsv1beta1.ReasonKindsInvalid, "malformed")
	for _, word := range []string{client.ObjectKeyFromObject(config).String(), workloads.KindsKey, "unexpected end of JSON input", "remedy"} {
		testenv.Eventually(t, func() error { return kindsAreInvalid(t, game, word) })
	}
	isRecorded(t, servers, gameServers, "game-0", node)
	rename(t, sound)
	testenv.Eventually(t, func() error {
		if c := meta.FindStatusCondition(env.MustState(t, game).Status.Conditions, appsv1beta1.ConditionKindsInvalid); c != nil {
			return fmt.Errorf("condition %+v, want it gone", c)
		}
		return nil
	})
}

func kindsAreInvalid(t *testing.T, of client.Object, word string) error {
	t.Helper()
	c := meta.FindStatusCondition(env.MustState(t, of).Status.Conditions, appsv1beta1.ConditionKindsInvalid)
	if c == nil {
		return fmt.Errorf("no condition %s", appsv1beta1.ConditionKindsInvalid)
	}
	return env.HasCondition(t, of, c.Type, c.Status, c.Reason, word)
}

// What a workload says of its size ends a record: the scale subresource, and the ordinals
// that OpenKruise's StatefulSet leaves out.
func TestTheSizeOfAWorkloadOfAFurtherKindEndsRecords(t *testing.T) {
	startRecorder(t)
	ns, node := env.Namespace(t), env.Node(t)
	env.ServeKinds(t)
	env.Create(t, asking(ns, "game", gameServers), asking(ns, "db", kruiseSets))
	servers := aWorkload(t, gameServers, ns, "game", map[string]any{"size": int64(1)})
	sets := aWorkload(t, kruiseSets, ns, "db", map[string]any{"replicas": int64(2), "reserveOrdinals": []any{"1-3"}})
	isRecorded(t, servers, gameServers, "game-0", node)
	isRecorded(t, sets, kruiseSets, "db-4", node)
	resize(t, servers, 0)
	env.RecordedOn(t, servers, map[string]string{})
	setField(t, sets, []any{"1-9"}, "spec", "reserveOrdinals")
	env.RecordedOn(t, sets, map[string]string{})
	resize(t, servers, 1)
	isRecorded(t, servers, gameServers, "game-0", node)
}

// A kind whose CRD is deleted is reported, and watched again when the CRD is back.
func TestAKindThatIsServedAgainIsWatchedAgain(t *testing.T) {
	startRecorder(t)
	ns, node := env.Namespace(t), env.Node(t)
	env.NameKinds(t)
	crd := env.ServeKind(t, gameServers)
	env.AggregateRights(t)
	game := asking(ns, "game", gameServers)
	env.Create(t, game)
	isRecorded(t, aWorkload(t, gameServers, ns, "game", map[string]any{"size": int64(1)}), gameServers, "game-0", node)
	env.Remove(t, crd)
	unread(t, game, "not served")
	env.ServeKind(t, gameServers)
	servers := aWorkload(t, gameServers, ns, "game", map[string]any{"size": int64(1)})
	isRecorded(t, servers, gameServers, "game-0", node)
	resize(t, servers, 0)
	env.RecordedOn(t, servers, map[string]string{})
}

func TestAKindThatIsNamedNoMoreKeepsItsRecords(t *testing.T) {
	startRecorder(t)
	ns, node := env.Namespace(t), env.Node(t)
	env.ServeKinds(t)
	game := asking(ns, "game", gameServers)
	env.Create(t, game)
	isRecorded(t, aWorkload(t, gameServers, ns, "game", map[string]any{"size": int64(1)}), gameServers, "game-0", node)
	rename(t, `{"workloads":[]}`)
	env.Condition(t, game, appsv1beta1.ConditionRecording, metav1.ConditionFalse, appsv1beta1.ReasonTargetUnsupported, gameServers.Kind)
	env.RecordedOn(t, game, map[string]string{"game-0": node.Name})
}

// A workload of a further kind gets its object by annotation, also after an object that a
// user made was in the way.
func TestAnObjectIsGeneratedForAFurtherKind(t *testing.T) {
	m := newManager(t)
	m.start(t, m.generator())
	ns := env.Namespace(t)
	env.ServeKinds(t)
	isGenerated(t, aWorkload(t, gameServers, ns, "annotated", nil))
	blocking := asking(ns, "blocked", gameServers)
	env.Create(t, blocking)
	blocked := aWorkload(t, gameServers, ns, "blocked", nil)
	env.ToldOnce(t, blocked, pin.ReasonForeign)
	env.Remove(t, blocking)
	isGenerated(t, blocked)
}

func TestAWorkloadOfAFurtherKindWhosePodIsMissingIsWokenUp(t *testing.T) {
	m := newManager(t)
	m.start(t, m.resyncer(), m.recorder())
	ns, node := env.Namespace(t), env.Node(t)
	env.ServeKinds(t)
	env.Create(t, asking(ns, "game", gameServers))
	servers := aWorkload(t, gameServers, ns, "game", map[string]any{"size": int64(1)})
	isRecorded(t, servers, gameServers, "game-0", node)
	nudged(t, servers)
}
