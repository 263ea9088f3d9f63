package workload_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/platform/workload"
)

func controlledBy(apiVersion, kind, name string) *metav1.ObjectMeta {
	return &metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "no-controller", UID: "0"},
		{APIVersion: apiVersion, Kind: kind, Name: name, UID: types.UID(name), Controller: new(true)},
	}}
}

func TestChain(t *testing.T) {
	owner := func(group, kind, name string) workload.Owner {
		return workload.Owner{Target: workload.Target{Group: group, Kind: kind, Name: name}, UID: types.UID(name)}
	}
	known := map[types.UID]metav1.Object{
		"web-7d4": controlledBy("apps/v1", "Deployment", "web"),
		"bare":    &metav1.ObjectMeta{},
		"back-1":  controlledBy("batch/v1", "CronJob", "back"),
		"loop":    controlledBy("apps/v1", "ReplicaSet", "loop"),
	}
	cases := map[string]struct {
		of   *metav1.ObjectMeta
		want []workload.Owner
	}{
		"a pod without a controller": {&metav1.ObjectMeta{}, nil},
		"a pod of a StatefulSet":     {controlledBy("apps/v1", "StatefulSet", "db"), []workload.Owner{owner("apps", "StatefulSet", "db")}},
		"a pod of a Deployment": {
			controlledBy("apps/v1", "ReplicaSet", "web-7d4"),
			[]workload.Owner{owner("apps", "ReplicaSet", "web-7d4"), owner("apps", "Deployment", "web")},
		},
		"a pod of a bare ReplicaSet":        {controlledBy("apps/v1", "ReplicaSet", "bare"), []workload.Owner{owner("apps", "ReplicaSet", "bare")}},
		"a ReplicaSet that is not known":    {controlledBy("apps/v1", "ReplicaSet", "new"), []workload.Owner{owner("apps", "ReplicaSet", "new")}},
		"a ReplicaSet of another API group": {controlledBy("example.com/v1", "ReplicaSet", "web-7d4"), []workload.Owner{owner("example.com", "ReplicaSet", "web-7d4")}},
		"a pod of a CronJob": {
			controlledBy("batch/v1", "Job", "back-1"),
			[]workload.Owner{owner("batch", "Job", "back-1"), owner("batch", "CronJob", "back")},
		},
		"owners in a cycle": {
			controlledBy("apps/v1", "ReplicaSet", "loop"),
			[]workload.Owner{owner("apps", "ReplicaSet", "loop"), owner("apps", "ReplicaSet", "loop"), owner("apps", "ReplicaSet", "loop"), owner("apps", "ReplicaSet", "loop")},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := workload.Chain(tc.of, func(o workload.Owner) (metav1.Object, error) {
				return known[o.UID], nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("chain (-want +got):\n%s", diff)
			}
		})
	}
}

func TestChainReturnsTheErrorOfALookup(t *testing.T) {
	unread := errors.New("unread")
	got, err := workload.Chain(controlledBy(appsv1.SchemeGroupVersion.String(), "ReplicaSet", "web-7d4"),
		func(workload.Owner) (metav1.Object, error) { return nil, unread })
	if !errors.Is(err, unread) || len(got) != 1 {
		t.Errorf("chain %v, error %v; want the nearest owner and the error of the lookup", got, err)
	}
}
