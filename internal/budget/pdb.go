package budget

import (
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// mostDisrupted is how many disrupted pods a PodDisruptionBudget may have before the API
// server refuses further evictions.
const mostDisrupted = 2000

// PDBsOf returns the PodDisruptionBudgets that select a pod. As for the API server, an
// invalid selector selects no pod, and an empty selector selects all pods.
func PDBsOf(pdbs []policyv1.PodDisruptionBudget, podLabels map[string]string) []PDB {
	var out []PDB
	for i := range pdbs {
		selector, err := metav1.LabelSelectorAsSelector(pdbs[i].Spec.Selector)
		if err == nil && selector.Matches(labels.Set(podLabels)) {
			out = append(out, pdbOf(&pdbs[i]))
		}
	}
	return out
}

func pdbOf(p *policyv1.PodDisruptionBudget) PDB {
	unhealthy := p.Spec.UnhealthyPodEvictionPolicy
	return PDB{
		Name:    p.Name,
		Allowed: p.Status.DisruptionsAllowed, CurrentHealthy: p.Status.CurrentHealthy, DesiredHealthy: p.Status.DesiredHealthy,
		Behind: p.Status.ObservedGeneration < p.Generation, Disrupted: p.Status.DisruptedPods,
		AlwaysAllowUnhealthy: unhealthy != nil && *unhealthy == policyv1.AlwaysAllow,
		Selector:             p.Spec.Selector, MaxUnavailable: p.Spec.MaxUnavailable, MinAvailable: p.Spec.MinAvailable,
	}
}

// planPDBs refuses an eviction that the API server would refuse afterwards, so that it costs
// no unit here. The API server answers 500 for a pod with two PodDisruptionBudgets.
func planPDBs(in Input) (Decision, bool) {
	switch {
	case len(in.PDBs) == 0 || in.Pod.Pending:
		return Decision{}, false
	case len(in.PDBs) > 1:
		return Decision{
			Verdict: Refused, Reason: ReasonManyPDBs, Message: manyPDBs(in),
			Offer: Replacement(in.Namespace, in.PDBs), Blocking: pdbNames(in.PDBs),
		}, true
	}
	p := in.PDBs[0]
	p.Allowed -= p.pending(in)
	why := p.refuses(in.Pod.Ready)
	if why == "" {
		return Decision{}, false
	}
	return Decision{
		Verdict: Refused, Reason: ReasonPDB, Blocking: pdbNames(in.PDBs),
		Message: bounded(fmt.Sprintf("PodDisruptionBudget %s %s: pod %s must stay.", clean(p.Name), why, clean(in.Pod.Name))),
	}, true
}

// pending is how many pods may go by evictions that the status does not show yet: the API server asks
// the guard first, and takes the pods from the PodDisruptionBudget afterwards.
func (p *PDB) pending(in Input) (n int32) {
	for uid, e := range in.Book.Entries {
		_, shown := p.Disrupted[e.Pod]
		if uid != in.Pod.UID && !shown && e.Vector == string(Evict) && e.Holds(in.Now) && p.Counts(e) {
			n++
		}
	}
	return n
}

// refuses says why the API server will refuse the eviction; "" when it will not.
func (p *PDB) refuses(ready bool) string {
	if !ready && (p.AlwaysAllowUnhealthy || p.CurrentHealthy >= p.DesiredHealthy && p.DesiredHealthy > 0) {
		return ""
	}
	switch {
	case p.Behind:
		return "was changed and is not counted again yet"
	case len(p.Disrupted) > mostDisrupted:
		return fmt.Sprintf("has %d disrupted pods, more than %d", len(p.Disrupted), mostDisrupted)
	case p.Allowed <= 0:
		return fmt.Sprintf("needs %d healthy pods and has %d", p.DesiredHealthy, p.CurrentHealthy)
	}
	return ""
}
