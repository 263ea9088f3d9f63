package cluster_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/testenv"
)

// TestANodePausesSinceItWasSeen has nodes say that they are not Ready, each by a clock of its own.
func TestANodePausesSinceItWasSeen(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := clocktesting.NewFakePassiveClock(start)
	part := cluster.NewNotReady(at).Note
	says := func(uid string, status corev1.ConditionStatus, since time.Duration) *corev1.Node {
		node := testenv.ANode("n1").Saying(status, start.Add(since)).Node
		node.UID = types.UID(uid)
		return node
	}
	for _, step := range []struct {
		name string
		at   time.Duration
		node *corev1.Node
		want bool
	}{
		{"this clock is ahead", 0, says("a", corev1.ConditionFalse, -61*time.Second), true},
		{"the node says so again", 19 * time.Second, says("a", corev1.ConditionFalse, 18*time.Second), true},
		{"for too long", 20 * time.Second, says("a", corev1.ConditionFalse, 18*time.Second), false},
		{"another node of that name", 20 * time.Second, says("b", corev1.ConditionFalse, -time.Hour), true},
		{"the first one is Ready", 21 * time.Second, says("a", corev1.ConditionTrue, 21*time.Second), false},
		{"the first one again", 22 * time.Second, says("a", corev1.ConditionFalse, time.Hour), true},
		{"it is silent", 50 * time.Second, says("a", corev1.ConditionUnknown, 50*time.Second), false},
		{"it is back", 51 * time.Second, says("a", corev1.ConditionFalse, 0), true},
	} {
		at.SetTime(start.Add(step.at))
		kept := &corev1.Node{ObjectMeta: step.node.ObjectMeta}
		cluster.NodeReadiness(step.node, kept)
		part(step.node, kept)
		if got := fit.Pausing(kept, &corev1.Pod{}, at.Now()); got != step.want {
			t.Errorf("%s: pausing: %t", step.name, got)
		}
	}
}

// TestANodeThatIsGoneIsForgotten deletes a node while it is not Ready.
func TestANodeThatIsGoneIsForgotten(t *testing.T) {
	noted := cluster.NewNotReady(clock.RealClock{})
	needs := cluster.Needs{Objects: []cluster.Need{cluster.Of(cluster.NodeReadiness)}}
	cachedBy(t, cluster.CacheOptionsWith(noted, needs), needs)
	node := testenv.ANode("gone-"+string(uuid.NewUUID())).Saying(corev1.ConditionFalse, time.Now()).Node
	env.Create(t, node)
	has := func(want bool) {
		t.Helper()
		testenv.Eventually(t, func() error {
			if noted.Has(node.UID) != want {
				return fmt.Errorf("the node is noted: %t", !want)
			}
			return nil
		})
	}
	has(true)
	if err := env.Client.Delete(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	has(false)
}
