package reconcile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// pairsAgain is the time between two searches for pods with several PodDisruptionBudgets: new
// pods have no event here. An eviction of such a pod is answered 500 until then.
const pairsAgain = 30 * time.Second

// neighbourhood is what is known of the budgets of one namespace.
type neighbourhood struct {
	now     time.Time
	ns      *corev1.Namespace
	budgets []policyv1beta1.PodUnavailableBudget
	pdbs    []policyv1.PodDisruptionBudget
	// pairs are the names of PodDisruptionBudgets that share a pod with another one.
	pairs []string
	// asked tells that a pod has the gate limpet.dev/in-service.
	asked bool
	// read is how many objects were looked at.
	read int
}

func (l *Labeler) gather(ctx context.Context, ns *corev1.Namespace) (neighbourhood, error) {
	n := neighbourhood{now: l.Clock.Now(), ns: ns}
	in := []client.ListOption{client.InNamespace(ns.Name), client.UnsafeDisableDeepCopy}
	budgets, err := budgetsOf(ctx, l.Client, ns.Name, client.UnsafeDisableDeepCopy)
	if err != nil {
		return n, err
	}
	var pdbs policyv1.PodDisruptionBudgetList
	if err := l.Client.List(ctx, &pdbs, in...); err != nil {
		return n, fmt.Errorf("list PodDisruptionBudgets in namespace %s: %w", ns.Name, err)
	}
	n.budgets, n.pdbs, n.read = budgets, pdbs.Items, len(budgets)+len(pdbs.Items)
	var gated corev1.PodList
	if err := l.Client.List(ctx, &gated, append(in, client.MatchingFields{indexGated: "yes"}, client.Limit(1))...); err != nil {
		return n, fmt.Errorf("list pods with a gate in namespace %s: %w", ns.Name, err)
	}
	n.asked = len(gated.Items) > 0
	if len(n.pdbs) < 2 {
		return n, nil
	}
	store, err := cluster.StoreOf(ctx, l.Pods, &corev1.Pod{})
	if err != nil {
		return n, err
	}
	pods, err := store.In(ns.Name)
	if err != nil {
		return n, err
	}
	var compared int
	n.pairs, compared = pairsOf(n.pdbs, pods)
	n.read += min(len(pods), mostSearched) + compared/perObject
	return n, nil
}

// Bounds of one search, which takes some 0.3 s at the most.
const (
	// mostSearched is how many pods are looked at.
	mostSearched = 50_000
	// mostCompared is how often a requirement of a PodDisruptionBudget is compared with a pod, and
	// how many labels and values of selectors are read. Budgets are found by a label of the pod,
	// so that only a namespace with thousands of budgets of the same label has more.
	mostCompared = 1_000_000
	// perObject is how many comparisons take as long as a look at a pod.
	perObject = 20
)

// pairsOf returns the names of PodDisruptionBudgets that select a living pod together with
// another one, sorted; at most mostReplaced of one pod. Kubernetes answers 500 to an eviction of
// such a pod.
func pairsOf(pdbs []policyv1.PodDisruptionBudget, pods []*corev1.Pod) (names []string, compared int) {
	search := newSearch(pdbs)
	paired := map[int]bool{}
	for _, pod := range pods[:min(len(pods), mostSearched)] {
		if !workload.Alive(pod) {
			continue
		}
		if of := search.selecting(pod.Labels); len(of) > 1 {
			for _, j := range of {
				paired[j] = true
			}
		}
		if search.compared >= mostCompared {
			break
		}
	}
	for j := range paired {
		names = append(names, pdbs[j].Name)
	}
	slices.SortFunc(names, strings.Compare)
	return names, search.compared
}

// search finds the PodDisruptionBudgets of pods.
type search struct {
	byKey     map[string][]int
	selectors []labels.Selector
	compared  int
}

// newSearch reads the selectors of the first budgets.
func newSearch(pdbs []policyv1.PodDisruptionBudget) *search {
	s := &search{byKey: map[string][]int{}, selectors: make([]labels.Selector, len(pdbs))}
	read := 0
	for i := range pdbs {
		if read += sizeOf(pdbs[i].Spec.Selector); read > mostCompared {
			return s
		}
		selector, err := metav1.LabelSelectorAsSelector(pdbs[i].Spec.Selector)
		if err != nil { // the API server skips such a budget
			continue
		}
		s.selectors[i] = selector
		for _, key := range cluster.SelectorKeys(pdbs[i].Spec.Selector) {
			s.byKey[key] = append(s.byKey[key], i)
		}
	}
	return s
}

// sizeOf is how many labels, expressions and values a selector has.
func sizeOf(of *metav1.LabelSelector) int {
	if of == nil {
		return 0
	}
	n := len(of.MatchLabels) + len(of.MatchExpressions)
	for _, r := range of.MatchExpressions {
		n += len(r.Values)
	}
	return n
}

// selecting returns the first budgets that select a pod.
func (s *search) selecting(of labels.Set) (found []int) {
	for _, key := range cluster.PodKeys(of) {
		for _, i := range s.byKey[key] {
			if len(found) == mostReplaced || s.compared >= mostCompared {
				return found
			}
			requirements, _ := s.selectors[i].Requirements()
			s.compared += max(len(requirements), 1)
			if s.selectors[i].Matches(of) {
				found = append(found, i)
			}
		}
	}
	return found
}

// wanted is the label that the namespace needs; "" for none.
func (n neighbourhood) wanted() string { return wantedOf(n.budgets, len(n.pairs) > 0, n.asked) }

// again returns when to search for pairs again; 0 for never.
func (n neighbourhood) again() time.Duration {
	if len(n.pdbs) < 2 {
		return 0
	}
	return pairsAgain
}

// soonest is the shorter of two times that are not 0.
func soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
