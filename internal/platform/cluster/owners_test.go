package cluster_test

import (
	"context"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/testenv"
)

// oneDeployment is a reader that has one Deployment, and a ReplicaSet of any name whose UID is another one than before.
type oneDeployment struct {
	client.Reader
	created time.Time
}

func (o oneDeployment) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if _, set := into.(*appsv1.ReplicaSet); !set && key.Name != "web-1" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "deployments"}, key.Name)
	}
	into.SetName(key.Name)
	into.SetUID("present")
	into.SetCreationTimestamp(metav1.NewTime(o.created))
	return nil
}

// A ReplicaSet that a user deletes alone hides its Deployment from no budget.
func TestTheChainOfAPodWhoseReplicaSetIsGone(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, tc := range map[string]struct {
		set, hash, kind string
		uid             types.UID
		deployment      time.Time
		want            int
	}{
		"the Deployment lives":            {"web-1-5d4c", "5d4c", "ReplicaSet", "former", created.Add(-time.Hour), 2},
		"it was made in the same second":  {"web-1-5d4c", "5d4c", "ReplicaSet", "former", created, 2},
		"it was applied again":            {"web-1-5d4c", "5d4c", "ReplicaSet", "former", created.Add(time.Second), 1},
		"it is gone":                      {"db-5d4c", "5d4c", "ReplicaSet", "former", created, 1},
		"the pod has the hash of another": {"web-1-5d4c", "77aa", "ReplicaSet", "former", created, 1},
		"the pod has no hash":             {"web-1-5d4c", "", "ReplicaSet", "former", created, 1},
		"a ReplicaSet that lives":         {"web-1-5d4c", "5d4c", "ReplicaSet", "present", created, 1},
		"a StatefulSet":                   {"web-1-5d4c", "5d4c", "StatefulSet", "former", created, 1},
	} {
		t.Run(name, func(t *testing.T) {
			owner := &metav1.ObjectMeta{Namespace: "shop", Name: tc.set, UID: tc.uid}
			pod := testenv.APod("web-1-5d4c-x").Of(owner, appsv1.SchemeGroupVersion.WithKind(tc.kind))
			pod.CreationTimestamp = metav1.NewTime(created)
			if tc.hash != "" {
				pod.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: tc.hash}
			}
			chain, err := cluster.ChainOf(t.Context(), oneDeployment{created: tc.deployment}, pod.Pod)
			if err != nil || len(chain) != tc.want || tc.want == 2 && (chain[1].Kind != "Deployment" || chain[1].UID != "present") {
				t.Errorf("chain %v, error %v; want %d owners", chain, err, tc.want)
			}
		})
	}
}
