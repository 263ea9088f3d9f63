package budget

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// labelAllPods is a label that no pod has. A PodUnavailableBudget must not have an empty
// selector; the absence of this label selects all pods of the namespace.
const labelAllPods = "limpet.dev/selects-no-pod"

// Replacements are the PodUnavailableBudgets that protect the same pods as some
// PodDisruptionBudgets, from evictions alone. A pod may have several of them.
// PodDisruptionBudgets with the same selector and comparable numbers become one budget with
// the stricter number.
func Replacements(namespace string, pdbs []PDB) []policyv1beta1.PodUnavailableBudget {
	var out []policyv1beta1.PodUnavailableBudget
	for _, p := range sortedPDBs(pdbs) {
		if p.MaxUnavailable == nil && p.MinAvailable == nil || p.Selector == nil {
			continue // protects no pod
		}
		spec := replacementOf(&p)
		same := slices.IndexFunc(out, func(b policyv1beta1.PodUnavailableBudget) bool {
			return equality.Semantic.DeepEqual(b.Spec.Selector, spec.Selector) && alike(&b.Spec, &spec)
		})
		if same >= 0 {
			tighten(&out[same].Spec, &spec)
			continue
		}
		out = append(out, policyv1beta1.PodUnavailableBudget{
			TypeMeta:   metav1.TypeMeta{APIVersion: policyv1beta1.GroupVersion.String(), Kind: "PodUnavailableBudget"},
			ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: namespace},
			Spec:       spec,
		})
	}
	return out
}

func replacementOf(p *PDB) policyv1beta1.PodUnavailableBudgetSpec {
	selector := p.Selector.DeepCopy()
	if len(selector.MatchLabels) == 0 && len(selector.MatchExpressions) == 0 {
		selector.MatchExpressions = []metav1.LabelSelectorRequirement{
			{Key: labelAllPods, Operator: metav1.LabelSelectorOpDoesNotExist},
		}
	}
	return policyv1beta1.PodUnavailableBudgetSpec{
		Selector: selector, MaxUnavailable: p.MaxUnavailable, MinAvailable: p.MinAvailable,
		ProtectOperations: []policyv1beta1.Operation{policyv1beta1.OperationEvict},
	}
}

// alike reports whether two budgets set the same field, both as a number or both as a
// percentage.
func alike(a, b *policyv1beta1.PodUnavailableBudgetSpec) bool {
	return sameKind(a.MaxUnavailable, b.MaxUnavailable) && sameKind(a.MinAvailable, b.MinAvailable)
}

func sameKind(a, b *intstr.IntOrString) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Type == b.Type
}

// tighten takes the stricter number of two comparable budgets.
func tighten(a, b *policyv1beta1.PodUnavailableBudgetSpec) {
	if a.MaxUnavailable != nil && percent(*b.MaxUnavailable) < percent(*a.MaxUnavailable) {
		a.MaxUnavailable = b.MaxUnavailable
	}
	if a.MinAvailable != nil && percent(*b.MinAvailable) > percent(*a.MinAvailable) {
		a.MinAvailable = b.MinAvailable
	}
}

// percent is a number that orders values of the same kind.
func percent(v intstr.IntOrString) int32 {
	n, _ := scaled(v, 100)
	return n
}

// Replacement is Replacements as YAML, ready to apply.
func Replacement(namespace string, pdbs []PDB) string {
	var documents []string
	for _, b := range Replacements(namespace, pdbs) {
		text, err := yaml.Marshal(b)
		if err != nil {
			continue // cannot happen: the type has no value that cannot be written
		}
		documents = append(documents, string(text))
	}
	return strings.Join(documents, "---\n")
}

func sortedPDBs(pdbs []PDB) []PDB {
	out := slices.Clone(pdbs)
	slices.SortFunc(out, func(a, b PDB) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func pdbNames(pdbs []PDB) []string {
	var names []string
	for _, p := range sortedPDBs(pdbs) {
		names = append(names, p.Name)
	}
	return names
}
