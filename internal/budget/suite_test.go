package budget_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/ledger"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// limit reads 3 and 30%.
func limit(text string) *intstr.IntOrString { return new(intstr.Parse(text)) }

// annotated is a budget with annotations, as key, value, key, value.
func annotated(keysAndValues ...string) *policyv1beta1.PodUnavailableBudget {
	pub := &policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "b-web", Annotations: map[string]string{}}}
	for i := 0; i+1 < len(keysAndValues); i += 2 {
		pub.Annotations[keysAndValues[i]] = keysAndValues[i+1]
	}
	return pub
}

// serving is an available pod; unready is one that is not.
func serving(i int) budget.Pod {
	return budget.Pod{UID: fmt.Sprintf("u-%d", i), Name: fmt.Sprintf("web-%d", i), Ready: true, Serving: true, Available: true}
}

func unready(i int) budget.Pod {
	return budget.Pod{UID: fmt.Sprintf("u-%d", i), Name: fmt.Sprintf("web-%d", i)}
}

// broken is a pod that runs and is not Ready; pending is one that was never started.
func broken(i int) budget.Pod { return unready(i) }

func pending(i int) budget.Pod {
	p := unready(i)
	p.Pending = true
	return p
}

// protects is a budget that protects pods which are not Ready, too.
func protects(b budget.Budget) budget.Budget {
	b.Rules.ProtectUnready = true
	return b
}

// young is a Ready pod before the end of the stable time.
func young(i int) budget.Pod {
	p := serving(i)
	p.Available = false
	return p
}

// pods are n available pods.
func pods(n int) []budget.Pod {
	var out []budget.Pod
	for i := range n {
		out = append(out, serving(i))
	}
	return out
}

// most is a budget with maxUnavailable for pods of which all are expected.
func most(max string, of []budget.Pod) budget.Budget {
	return budget.Budget{
		Name: "web", UID: "b-web", MaxUnavailable: limit(max), Expected: int32(len(of)), Pods: of, Rules: defaultRules(),
	}
}

// least is a budget with minAvailable.
func least(min string, of []budget.Pod) budget.Budget {
	b := most("0", of)
	b.MaxUnavailable, b.MinAvailable = nil, limit(min)
	return b
}

func defaultRules() budget.Rules {
	rules, err := budget.RulesOf(annotated())
	if err != nil {
		panic(err)
	}
	return rules
}

// named gives a budget another name.
func named(name string, b budget.Budget) budget.Budget {
	b.Name, b.UID = name, "b-"+name
	return b
}

// with changes a budget.
func with(b budget.Budget, change func(*budget.Budget)) budget.Budget {
	change(&b)
	return b
}

// book holds entries of pods, each of which is one second old.
func book(of ...budget.Pod) ledger.Book {
	b := ledger.Book{Entries: map[string]ledger.Entry{}}
	for _, p := range of {
		b.Entries[p.UID] = ledger.Entry{
			UID: p.UID, Pod: p.Name, Use: ledger.Gone, Vector: "evict", By: "bob",
			Since: now.Add(-time.Second), Expires: now.Add(ledger.Bound - time.Second),
		}
	}
	return b
}

// evict is a request to evict a pod.
func evict(p budget.Pod, b ledger.Book, budgets ...budget.Budget) budget.Input {
	return budget.Input{Now: now, Namespace: "shop", Vector: budget.Evict, Pod: p, By: "bob", Budgets: budgets, Book: b}
}

// readyPod is a running pod that has been Ready for a minute.
func readyPod(change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "shop", UID: types.UID("u-0"), Labels: map[string]string{"app": "web"}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute)),
			}},
		},
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}
