package reconcile

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// situation is what one reconcile knows of a budget.
type situation struct {
	now     time.Time
	pub     *policyv1beta1.PodUnavailableBudget
	covered disruption.Covered
	// divided is the object of which pub is what budget.Undivided returns, and groups are all of its groups;
	// nil for a PodUnavailableBudget.
	divided  *limpetv1alpha1.DistributedPodDisruptionBudget
	groups   []budget.Budget
	counts   []budget.Numbers // of the groups, since status
	problem  string           // why the budget shares no units with its peers
	namesake bool             // there is a PodDisruptionBudget of its name
	other    string           // which other budget keeps the child away
	refused  string           // why the API server takes no child
	sizeless bool             // Kubernetes cannot read for the child how many pods the workloads want
	evicts   bool             // the child may have permitted evictions that the facts lack
	passed   time.Time        // of an offer
	idle     bool             // for long no pod went, and no request waited
	book     ledger.Book
	seen     ledger.Seen // the pods of the book's entries
	causes   map[types.UID]cause
	guard    guardState
	// missed is when a pod last went without a request that was judged, not for its node.
	missed time.Time
	before []metav1.Condition // of the budget
	// explained reports whether the disruption of a pod has an explanation.
	explained func(types.UID) bool
}

// gather reads the pods before the book, so that the book is not older than the pods. The
// version of the pods is read first of all: the pods are at least as new as it says.
func (r *Reconciler) gather(
	ctx context.Context, pub *policyv1beta1.PodUnavailableBudget, divided *limpetv1alpha1.DistributedPodDisruptionBudget, last known,
) (situation, error) {
	s := situation{now: r.Clock.Now(), pub: pub, divided: divided, before: pub.Status.Conditions, missed: last.missed, explained: r.memory.explanations(pub.Namespace, r.Clock.Now())}
	var err error
	if s.seen.Version, err = r.Reader.Version(ctx); err != nil {
		return s, err
	}
	if s.covered, err = r.Reader.Covered(ctx, pub, s.now); err != nil {
		return s, err
	}
	if divided != nil {
		s.namesake = r.Client.Get(ctx, client.ObjectKeyFromObject(divided), &policyv1.PodDisruptionBudget{}) == nil
		if s.groups, err = r.Reader.Groups(ctx, divided, &s.covered); err != nil {
			return s, err
		}
		r.gatherSites(ctx, &s)
	}
	if s.book, err = r.Books.Look(ctx, books.OfBudgets(pub.Namespace)); err != nil {
		return s, err
	}
	if err := r.gatherEntries(ctx, &s); err != nil {
		return s, err
	}
	if err := r.gatherCauses(ctx, &s, last); err != nil {
		return s, err
	}
	s.guard, err = r.Prober.state(ctx, pub.Namespace, s.now)
	return s, err
}

// enforced is the condition Enforced.
func (s *situation) enforced() metav1.Condition {
	_, unmatched := budget.MatcherOf(s.pub)
	_, invalid := budget.RulesOf(s.pub)
	g := budget.Guard{Problem: unmatched, Rules: s.covered.Budget.Rules, Invalid: invalid, Missed: s.missed, Loose: s.covered.Budget.Loose()}
	return s.guard.condition(g, s.now)
}

// gatherEntries reads the pods of the book's entries. The disruption of such a pod is
// explained for all budgets of the namespace, also after its entry is removed.
func (r *Reconciler) gatherEntries(ctx context.Context, s *situation) error {
	s.seen.Pods = map[string]ledger.PodSeen{}
	uids := make([]types.UID, 0, len(s.book.Entries))
	for id, entry := range s.book.Entries {
		uid := types.UID(id)
		uids = append(uids, uid)
		pod, err := r.podNow(ctx, s.pub.Namespace, entry.Pod, uid)
		if err != nil {
			return err
		}
		if s.seen.Pods[id] = (ledger.PodSeen{Gone: true}); pod != nil {
			node, err := cluster.Node(ctx, r.Client, pod.Spec.NodeName)
			if err != nil {
				return err
			}
			s.seen.Pods[id] = budget.Seen(pod, node != nil && !fit.Ready(node), entry)
		}
	}
	r.memory.explain(s.pub.Namespace, s.now, uids...)
	return nil
}

// gatherCauses reads why pods that were available are so no longer.
func (r *Reconciler) gatherCauses(ctx context.Context, s *situation, last known) error {
	s.causes = map[types.UID]cause{}
	for uid, sight := range s.observation().missing(last.sights) {
		pod, err := r.podNow(ctx, s.pub.Namespace, sight.name, uid)
		if err != nil {
			return err
		}
		var node *corev1.Node
		if pod != nil {
			if node, err = cluster.Node(ctx, r.Client, pod.Spec.NodeName); err != nil {
				return err
			}
		}
		if found, ended := causeOf(pod, node); ended {
			s.causes[uid] = found
		}
	}
	return nil
}

// observation is the part of a situation from which losses are found.
func (s *situation) observation() observation {
	o := observation{now: s.now, available: map[types.UID]bool{}, names: map[types.UID]string{}, causes: s.causes, judged: s.judged}
	for _, pod := range s.covered.Budget.Pods {
		o.available[types.UID(pod.UID)], o.names[types.UID(pod.UID)] = pod.Available, pod.Name
	}
	return o
}

// judged reports whether a pod went after a decision.
func (s *situation) judged(uid types.UID) bool {
	_, entered := s.book.Entries[string(uid)]
	return entered || s.explained(uid)
}

// status is what the budget shows.
func (s *situation) status() policyv1beta1.PodUnavailableBudgetStatus {
	if s.divided != nil {
		return s.statusDivided()
	}
	numbers := budget.Count(s.covered.Budget, s.book, s.now)
	covered := map[types.UID]string{}
	for _, pod := range s.covered.Budget.Pods {
		covered[types.UID(pod.UID)] = pod.Name
	}
	explained := budget.Explain(s.covered.Budget, s.book, s.now)
	conditions := []metav1.Condition{budget.DisruptionAllowedOf(numbers, explained), s.enforced()}
	return shownOf(s.pub, numbers, s.book, covered, conditions)
}

// again returns when to look again: at a change that has no event, such as the end of an
// entry or of a pod's stable time.
func (s *situation) again(soonest time.Duration) time.Duration {
	again := checkAgain
	if soonest > 0 {
		again = soonest
	}
	switch {
	case s.guard.probe.unsettled():
		again = min(again, probeSoon)
	case s.enforced().Status != metav1.ConditionTrue:
		again = min(again, configurationAgain)
	}
	if s.divides() {
		again = min(again, exchangeAgain)
	}
	for _, pod := range s.covered.Pods {
		e, ok := s.book.Entries[string(pod.UID)]
		if !ok { // any budget of the namespace ends those of other pods
			continue
		}
		if left := e.Expires.Sub(s.now); left > 0 { // a change that lasts longer has events
			again = min(again, left)
		}
	}
	for _, pod := range s.covered.Pods {
		if at, ok := budget.StableAt(pod, s.covered.Budget.Rules.Stable, s.now); ok {
			again = min(again, at.Sub(s.now))
		}
	}
	return max(again, pause)
}
