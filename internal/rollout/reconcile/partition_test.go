package reconcile_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controller "github.com/limpet-io/limpet/internal/rollout/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
)

// has waits until a set has a partition, and says how many pods are updated.
func has(t *testing.T, set *appsv1.StatefulSet, partition int32, expected string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		var got appsv1.StatefulSet
		env.Read(t, client.ObjectKeyFromObject(set), &got)
		p := int32(0)
		if r := got.Spec.UpdateStrategy.RollingUpdate; r != nil {
			p = ptr.Deref(r.Partition, 0)
		}
		if p != partition || got.Annotations[expectedOf] != expected {
			return fmt.Errorf("partition %d with %q, want %d with %q", p, got.Annotations[expectedOf], partition, expected)
		}
		return nil
	})
}

// The partition follows the percentage and the size, wherever the ordinals start. Without the
// annotation it stays as it is.
func TestThePartitionFollows(t *testing.T) {
	start(t)
	set := aSet(t, 10, with(partitionOf, "90%"), func(s testenv.StatefulSet) { s.StartingAt(5) })
	has(t, set, 9, "1")
	env.Patch(t, set, `{"spec":{"replicas":3}}`)
	has(t, set, 2, "1")
	env.Annotate(t, set, partitionOf, "100%")
	has(t, set, 3, "0")
	env.Patch(t, set, `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`) // by a person
	has(t, set, 3, "0")
	env.Annotate(t, set, partitionOf, "most")
	env.Told(t, set, controller.ReasonInvalidPartition, "most")
	has(t, set, 3, "0")
	env.Annotate(t, set, partitionOf, "")
	has(t, set, 3, "")
	env.Patch(t, set, `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":1}},"replicas":5}}`)
	env.Annotate(t, set, partitionOf, "0%")
	has(t, set, 0, "5")
}

// A set that updates its pods on deletion has no partition. The next deletions update all pods.
func TestNoPartitionOnDelete(t *testing.T) {
	start(t)
	set := aSet(t, 4, with(partitionOf, "50%"), func(s testenv.StatefulSet) { s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType })
	has(t, set, 0, "4")
}

// A request to the scale subresource, as kubectl scale and autoscalers make it: the partition follows.
func TestThePartitionFollowsAScale(t *testing.T) {
	start(t)
	set := aSet(t, 5, with(partitionOf, "90%"))
	has(t, set, 4, "1")
	scale := &autoscalingv1.Scale{}
	if err := env.Client.SubResource("scale").Get(t.Context(), set, scale); err != nil {
		t.Fatal(err)
	}
	scale.Spec.Replicas = 50
	if err := env.Client.SubResource("scale").Update(t.Context(), set, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	has(t, set, 45, "5")
}
