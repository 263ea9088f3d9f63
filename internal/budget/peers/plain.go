package peers

import (
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/budget/sites"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Bounds of the annotation of a PodDisruptionBudget: each name that it has is looked for at each of its changes.
const (
	mostReaders    = 17
	longestReaders = mostReaders * 600
)

// Plain is a PodDisruptionBudget in the words of a DistributedPodDisruptionBudget: its annotation names the budgets that
// may count it, and its only share is how many pods it lacks.
func Plain(of *policyv1.PodDisruptionBudget) *limpetv1alpha1.DistributedPodDisruptionBudget {
	b := &limpetv1alpha1.DistributedPodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{
		Namespace: of.Namespace, Name: sites.FixedName(of.Name), UID: of.UID, Generation: of.Generation,
	}}
	b.Spec.MaxUnavailable, b.Spec.MinAvailable = of.Spec.MaxUnavailable, of.Spec.MinAvailable
	readers := strings.SplitN(of.Annotations[policyv1beta1.AnnotationPeers], ",", mostReaders+1)
	for _, site := range readers[:min(len(readers), mostReaders)] {
		if cluster, namespace, name := sites.Site(strings.TrimSpace(site)).Parts(); name != "" {
			b.Spec.Federation = append(b.Spec.Federation, limpetv1alpha1.BudgetPeer{Cluster: cluster, Namespace: namespace, Name: name})
		}
	}
	s := of.Status
	b.Status.ObservedGeneration, b.Status.DisruptionsAllowed, b.Status.CurrentHealthy = s.ObservedGeneration, s.DisruptionsAllowed, s.CurrentHealthy
	b.Status.ExpectedPods = max(s.ExpectedPods, s.DesiredHealthy) // pods are expected while they exist
	b.Status.Shares = []limpetv1alpha1.BudgetShare{{Short: max(s.DesiredHealthy-s.CurrentHealthy, 0)}}
	return b
}

// KeepPlain keeps of a PodDisruptionBudget with peers what Plain reads.
func KeepPlain(from, to *policyv1.PodDisruptionBudget) {
	names, counted := from.Annotations[policyv1beta1.AnnotationPeers]
	if !counted || len(names) > longestReaders {
		return
	}
	to.Annotations = map[string]string{policyv1beta1.AnnotationPeers: names}
	to.Spec.MaxUnavailable, to.Spec.MinAvailable = from.Spec.MaxUnavailable, from.Spec.MinAvailable
	s := from.Status
	to.Status = policyv1.PodDisruptionBudgetStatus{
		ObservedGeneration: s.ObservedGeneration, DisruptionsAllowed: s.DisruptionsAllowed, CurrentHealthy: s.CurrentHealthy,
		DesiredHealthy: s.DesiredHealthy, ExpectedPods: s.ExpectedPods,
	}
}
