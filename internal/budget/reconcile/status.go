package reconcile

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

const (
	mostDecisions = 16   // the schema takes no more
	mostNames     = 2000 // of pods in each map, as in OpenKruise
	longestBy     = 253  // of a user name, by the schema
)

// shownOf returns the status of a budget: its numbers, and the parts of the book that are
// about its pods. covered are the names of its pods by UID.
func shownOf(pub *policyv1beta1.PodUnavailableBudget, n budget.Numbers, book ledger.Book, covered map[types.UID]string, conditions []metav1.Condition) policyv1beta1.PodUnavailableBudgetStatus {
	status := policyv1beta1.PodUnavailableBudgetStatus{
		ObservedGeneration: pub.Generation,
		UnavailableAllowed: n.Allowed, CurrentAvailable: n.Current, DesiredAvailable: n.Desired, TotalReplicas: n.Total,
		DisruptedPods:   podsOf(book, ledger.Gone, covered),
		UnavailablePods: podsOf(book, ledger.Changed, covered),
		Decisions:       decisionsOf(book, pub),
		Conditions:      slices.Clone(pub.Status.Conditions),
	}
	for _, c := range conditions {
		c.ObservedGeneration = pub.Generation
		if before := meta.FindStatusCondition(status.Conditions, c.Type); before != nil && ageless(before.Message) == ageless(c.Message) {
			c.Message = before.Message // an age alone is not worth a write
		}
		meta.SetStatusCondition(&status.Conditions, c)
	}
	return status
}

// podsOf maps the names of the pods that have an entry of one use to the time of the entry.
// An entry whose pod another one has succeeded is not shown: the successor did not leave.
func podsOf(book ledger.Book, use ledger.Use, covered map[types.UID]string) map[string]metav1.Time {
	var pods map[string]metav1.Time
	for _, uid := range slices.Sorted(maps.Keys(book.Entries)) { // so that a bound leaves out the same ones each time
		entry := book.Entries[uid]
		name, known := covered[types.UID(uid)]
		if entry.Use.InPlace() != use.InPlace() || !known || len(pods) >= mostNames {
			continue
		}
		if pods == nil {
			pods = map[string]metav1.Time{}
		}
		pods[name] = second(entry.Since)
	}
	return pods
}

var anAge = regexp.MustCompile(`\b\d+ (s|min)\b`)

// ageless is a message without the ages in it, which change by themselves.
func ageless(message string) string { return anAge.ReplaceAllString(message, "") }

// decisionsOf returns the last decisions that are about a budget.
func decisionsOf(book ledger.Book, pub *policyv1beta1.PodUnavailableBudget) []policyv1beta1.Decision {
	var out []policyv1beta1.Decision
	for _, d := range about(book.Decisions, pub) {
		if len(out) == mostDecisions {
			break
		}
		out = append(out, policyv1beta1.Decision{
			Time: second(d.Time), Pod: d.Pod, Vector: d.Vector, Verdict: d.Verdict, Reason: d.Reason, By: shortened(d.By, longestBy),
		})
	}
	return out
}

// about selects the decisions that name a budget. A former budget of the name does not count.
func about(decisions []ledger.Decision, pub *policyv1beta1.PodUnavailableBudget) []ledger.Decision {
	return slices.DeleteFunc(slices.Clone(decisions), func(d ledger.Decision) bool {
		return !slices.Contains(d.Budgets, pub.Name) || d.Time.Before(pub.CreationTimestamp.Time)
	})
}

// shortened fits a text into the schema, which counts characters.
func shortened(text string, most int) string {
	text = strings.ToValidUTF8(text, "")
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most])
	}
	return text
}

// second is a time as the API stores it.
func second(t time.Time) metav1.Time { return metav1.NewTime(t.Truncate(time.Second)) }
