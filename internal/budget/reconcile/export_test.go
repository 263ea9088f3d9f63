package reconcile

import (
	"fmt"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Times that tests wait for.
const (
	LossDelay  = lossDelay
	MostEvents = mostEvents
	TellAgain  = tellAgain
)

// Changes are the entries that one list has and the other has not.
var Changes = changes

// PairsOf finds PodDisruptionBudgets that share pods.
func PairsOf(pdbs []policyv1.PodDisruptionBudget, pods []*corev1.Pod) []string {
	names, _ := pairsOf(pdbs, pods)
	return names
}

// Compared is how often the search for such budgets compares a pod with one.
func Compared(pdbs []policyv1.PodDisruptionBudget, pods []*corev1.Pod) int {
	_, compared := pairsOf(pdbs, pods)
	return compared
}

// Bounds of a search.
const (
	MostCompared = mostCompared
	MostSearched = mostSearched
)

// RestAfter is how long a namespace rests.
func RestAfter(objects int) time.Duration { return restAfter(objects) }

// CauseOf says why a pod that was available is so no longer.
func CauseOf(pod *corev1.Pod, node *corev1.Node) string {
	found, _ := causeOf(pod, node)
	return string(found)
}

// Losses follows pods over several looks.
type Losses struct{ sights map[types.UID]sight }

// Look is one look at some pods: which are available, why others are not, and which were judged.
func (l *Losses) Look(now time.Time, available map[types.UID]bool, causes map[types.UID]string, judged ...types.UID) (lost []string) {
	o := observation{now: now, available: available, causes: map[types.UID]cause{}, judged: func(uid types.UID) bool {
		return slices.Contains(judged, uid)
	}}
	for uid, found := range causes {
		o.causes[uid] = cause(found)
	}
	after, losses, _ := o.compare(l.sights)
	l.sights = after
	for _, loss := range losses {
		lost = append(lost, string(loss.uid)+" "+string(loss.cause))
	}
	return lost
}

// Teller follows refusals.
type Teller struct{ told teller }

// Since begins to follow refusals.
func Since(at time.Time) *Teller { return &Teller{teller{since: at}} }

// Tell returns the pods to report.
func (t *Teller) Tell(decisions []ledger.Decision, now time.Time) (pods []string) {
	for _, d := range t.told.next(decisions, now) {
		pods = append(pods, d.Pod)
	}
	return pods
}

// Lacks says which requests a webhook configuration does not send to the guard.
func Lacks(webhooks []admissionv1.ValidatingWebhook, labels map[string]string) string {
	c := configuration{found: true}
	for _, w := range webhooks {
		if isGuard(w.ClientConfig) {
			c.webhooks = append(c.webhooks, w)
		}
	}
	_, lacks := c.lacks(labels)
	return lacks
}

// Shown is the status of a budget with one condition.
func Shown(pub *policyv1beta1.PodUnavailableBudget, book ledger.Book, covered map[types.UID]string, message string) policyv1beta1.PodUnavailableBudgetStatus {
	c := metav1.Condition{Type: policyv1beta1.ConditionDisruptionAllowed, Status: metav1.ConditionFalse, Reason: "BudgetExhausted", Message: message}
	return shownOf(pub, budget.Numbers{Total: 3}, book, covered, []metav1.Condition{c})
}

// Bounds of what the leader does and remembers for one namespace, and for all.
const (
	ReconcileEach    = reconcileEach
	ReconcilesAtOnce = reconcilesAtOnce
	MostSights       = mostSights
	MostSightsInAll  = mostSightsInAll
)

// Memory is what the leader remembers of budgets.
type Memory struct{ memory memory }

// Turn returns how long a reconcile of a budget has to wait.
func (m *Memory) Turn(budget client.ObjectKey, now time.Time) time.Duration {
	return m.memory.turn(budget, now)
}

// Follow remembers as many available pods of a budget, and returns how many it follows.
func (m *Memory) Follow(budget client.ObjectKey, pods int) int {
	k := m.memory.of(budget, "uid", time.Time{})
	k.sights = map[types.UID]sight{}
	for i := range pods {
		k.sights[types.UID(fmt.Sprint(budget, i))] = sight{}
	}
	m.memory.put(budget, k)
	return len(m.memory.of(budget, "uid", time.Time{}).sights)
}

// Forget drops a budget.
func (m *Memory) Forget(budget client.ObjectKey) { m.memory.forget(budget) }
