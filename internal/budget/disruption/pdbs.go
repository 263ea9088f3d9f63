package disruption

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	"github.com/limpet-io/limpet/internal/platform/workload"
)

// mostPDBs is how many PodDisruptionBudgets of a pod are read. The API server evicts no pod
// that has more than one.
const mostPDBs = 4

// disruptionBudgets returns the PodDisruptionBudgets that select a pod, as the API server has
// them: their status is older in the cache, and an eviction that they refuse must cost nothing.
func (j *Judge) disruptionBudgets(ctx context.Context, pod *corev1.Pod) ([]budget.PDB, error) {
	selecting, err := cluster.DisruptionBudgetsFor(ctx, j.reader.cached, pod.Namespace, pod.Labels)
	if err != nil {
		return nil, err
	}
	var found []policyv1.PodDisruptionBudget
	for _, cached := range selecting[:min(len(selecting), mostPDBs)] {
		var now policyv1.PodDisruptionBudget
		switch err := j.live.Get(ctx, client.ObjectKeyFromObject(cached), &now); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("get PodDisruptionBudget %s: %w", cached.Name, err)
		default:
			found = append(found, now)
		}
	}
	all := budget.PDBsOf(found, pod.Labels)
	for i := range all {
		selector, _ := metav1.LabelSelectorAsSelector(all[i].Selector) // it selects the pod
		all[i].Counts = func(e ledger.Entry) bool {
			var other corev1.Pod
			err := j.reader.cached.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: e.Pod}, &other, client.UnsafeDisableDeepCopy)
			return err == nil && string(other.UID) == e.UID && workload.Alive(&other) && workload.Ready(&other) && selector.Matches(labels.Set(other.Labels))
		}
	}
	return all, nil
}
