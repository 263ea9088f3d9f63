package creation_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// percentSet is a StatefulSet with a percent partition.
func percentSet(ns, name, percentage string, replicas int32) *appsv1.StatefulSet {
	set := testenv.AStatefulSet(name, replicas).In(ns).With(appsv1beta1.AnnotationPartition, percentage)
	set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	return set.StatefulSet
}

func partitionOf(set *appsv1.StatefulSet) int32 {
	if set.Spec.UpdateStrategy.RollingUpdate == nil {
		return -1
	}
	return ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate.Partition, 0)
}

// The partition is in the object that the request stores. No leader runs here.
func TestThePartitionIsWrittenWithTheSize(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	testenv.Eventually(t, func() error { // the API server notices a new webhook late
		if set := percentSet(ns, "probe", "90%", 5); env.Client.Create(t.Context(), set, client.DryRunAll) != nil || partitionOf(set) != 4 {
			return fmt.Errorf("the partition is %d", partitionOf(set))
		}
		return nil
	})
	set := percentSet(ns, "web", "90%", 5)
	env.Create(t, set)
	for _, tc := range []struct {
		what, patch string
		want        int32
	}{
		{"a larger size", `{"spec":{"replicas":50}}`, 45},
		{"the size of before", `{"spec":{"replicas":5}}`, 4},
		{"another percentage and a template", `{"metadata":{"annotations":{"limpet.dev/partition":"20%"}},"spec":{"template":{"metadata":{"labels":{"v":"2"}}}}}`, 1},
		{"a partition by hand", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":3}}}}`, 1},
		{"no percentage", `{"metadata":{"annotations":{"limpet.dev/partition":"most"}},"spec":{"replicas":50}}`, 1},
		{"without the annotation", `{"metadata":{"annotations":{"limpet.dev/partition":null}},"spec":{"updateStrategy":{"rollingUpdate":{"partition":7}}}}`, 7},
		{"deletion alone", `{"metadata":{"annotations":{"limpet.dev/partition":"20%"}},"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}`, -1},
	} {
		if err := env.Client.Patch(t.Context(), set, client.RawPatch(types.MergePatchType, []byte(tc.patch))); err != nil {
			t.Fatalf("%s: %v", tc.what, err)
		}
		if got := partitionOf(set); got != tc.want {
			t.Errorf("%s: partition %d, want %d", tc.what, got, tc.want)
		}
	}
}

// A request to the scale subresource has no partition, so that the leader writes it afterwards.
func TestAScaleLeavesThePartition(t *testing.T) {
	serve(t)
	ns := env.Namespace(t)
	set := percentSet(ns, "web", "90%", 5)
	env.Create(t, set)
	env.Patch(t, set, `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":4}}}}`)
	scale := &autoscalingv1.Scale{}
	if err := env.Client.SubResource("scale").Get(t.Context(), set, scale); err != nil {
		t.Fatal(err)
	}
	scale.Spec.Replicas = 50
	if err := env.Client.SubResource("scale").Update(t.Context(), set, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	env.Read(t, client.ObjectKeyFromObject(set), set)
	if partitionOf(set) != 4 || *set.Spec.Replicas != 50 {
		t.Errorf("partition %d of %d", partitionOf(set), *set.Spec.Replicas)
	}
}
