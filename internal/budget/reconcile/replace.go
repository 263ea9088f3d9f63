package reconcile

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Reasons of events about replaced PodDisruptionBudgets.
const (
	reasonReplaced    = "DisruptionBudgetReplaced"    // a PodDisruptionBudget became a PodUnavailableBudget
	reasonNotReplaced = "DisruptionBudgetNotReplaced" // a PodDisruptionBudget stays, because a PodUnavailableBudget cannot say the same
)

const (
	replaceSoon  = 5 * time.Second // until the new budgets are enforced
	mostReplaced = 64              // in one step
)

// replace replaces PodDisruptionBudgets that share pods, in a namespace whose owner asks for
// that. The new budgets come first, and the old ones go only when the new ones are enforced: no
// pod is without protection in between.
func (l *Labeler) replace(ctx context.Context, n neighbourhood) (again time.Duration, err error) {
	if n.ns.Annotations[policyv1beta1.AnnotationReplace] != "true" || len(n.pairs) == 0 {
		return 0, nil
	}
	old, err := l.livePDBs(ctx, n)
	if err != nil || len(old) < 2 {
		return 0, err
	}
	enforced := true
	for _, want := range budget.Replacements(n.ns.Name, plainPDBs(old)) {
		ready, taken, err := l.ensure(ctx, &want)
		if taken || err != nil {
			return 0, err
		}
		enforced = enforced && ready
	}
	if !enforced {
		return replaceSoon, nil
	}
	return 0, l.remove(ctx, old)
}

// livePDBs reads the PodDisruptionBudgets that share pods as the API server has them.
func (l *Labeler) livePDBs(ctx context.Context, n neighbourhood) ([]policyv1.PodDisruptionBudget, error) {
	var found []policyv1.PodDisruptionBudget
	for _, name := range n.pairs[:min(len(n.pairs), mostReplaced)] {
		var pdb policyv1.PodDisruptionBudget
		switch err := l.Live.Get(ctx, client.ObjectKey{Namespace: n.ns.Name, Name: name}, &pdb); {
		case apierrors.IsNotFound(err) || err == nil && pdb.DeletionTimestamp != nil:
		case err == nil && isChild(&pdb): // its budget goes on without it
		case err != nil:
			return nil, fmt.Errorf("get PodDisruptionBudget %s/%s: %w", n.ns.Name, name, err)
		default:
			found = append(found, pdb)
		}
	}
	return found, nil
}

// isChild reports whether a DistributedPodDisruptionBudget has made a PodDisruptionBudget.
func isChild(pdb *policyv1.PodDisruptionBudget) bool {
	owner := metav1.GetControllerOfNoCopy(pdb)
	return owner != nil && owner.Kind == "DistributedPodDisruptionBudget"
}

// plainPDBs are PodDisruptionBudgets in the words of package budget.
func plainPDBs(pdbs []policyv1.PodDisruptionBudget) []budget.PDB {
	out := make([]budget.PDB, len(pdbs))
	for i, p := range pdbs {
		out[i] = budget.PDB{Name: p.Name, Selector: p.Spec.Selector, MaxUnavailable: p.Spec.MaxUnavailable, MinAvailable: p.Spec.MinAvailable}
	}
	return out
}

// ensure creates a budget that does not exist. ready tells that the budget is enforced; taken,
// that another budget has its name.
func (l *Labeler) ensure(ctx context.Context, want *policyv1beta1.PodUnavailableBudget) (ready, taken bool, err error) {
	var now policyv1beta1.PodUnavailableBudget
	key := client.ObjectKeyFromObject(want)
	switch err := l.Live.Get(ctx, key, &now); {
	case apierrors.IsNotFound(err):
		if err := l.Client.Create(ctx, want); err != nil {
			return false, false, fmt.Errorf("create PodUnavailableBudget %s: %w", key, err)
		}
		return false, false, nil
	case err != nil:
		return false, false, fmt.Errorf("get PodUnavailableBudget %s: %w", key, err)
	}
	if !equality.Semantic.DeepEqual(now.Spec, want.Spec) {
		l.Events.Eventf(&now, nil, corev1.EventTypeWarning, reasonNotReplaced, "Replace",
			"PodDisruptionBudget %s is not replaced: a PodUnavailableBudget of the name says something else", want.Name)
		return false, true, nil
	}
	c := meta.FindStatusCondition(now.Status.Conditions, policyv1beta1.ConditionEnforced)
	return c != nil && c.Status == "True" && now.Status.ObservedGeneration == now.Generation, false, nil
}

// remove deletes PodDisruptionBudgets that did not change since they were read.
func (l *Labeler) remove(ctx context.Context, pdbs []policyv1.PodDisruptionBudget) error {
	for i := range pdbs {
		p := &pdbs[i]
		err := l.Client.Delete(ctx, p, client.Preconditions{UID: &p.UID, ResourceVersion: &p.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete PodDisruptionBudget %s: %w", client.ObjectKeyFromObject(p), err)
		}
		l.Events.Eventf(p, nil, corev1.EventTypeNormal, reasonReplaced, "Replace",
			"Namespace %s has the annotation %s, and PodUnavailableBudgets protect the same pods", p.Namespace, policyv1beta1.AnnotationReplace)
	}
	return nil
}
