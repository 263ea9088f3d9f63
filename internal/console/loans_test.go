package console_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestAnAddressOnLoan has a pod that waits behind the gate of its loan, in each state of the loan. An operator hears of a loan
// that waits for a node.
func TestAnAddressOnLoan(t *testing.T) {
	const long = 2 * time.Minute
	for name, tc := range map[string]struct {
		status limpetv1alpha1.BorrowedAddressStatus
		since  time.Duration
		says   string
		remedy string // part of it; "" for no problem
	}{
		"home is asked":                 {limpetv1alpha1.BorrowedAddressStatus{Phase: "Asked"}, time.Second, "the node is asked to lend it", ""},
		"home does not answer":          {limpetv1alpha1.BorrowedAddressStatus{Phase: "Asked"}, long, "the node is asked to lend it", "kubectl taint node n1 "},
		"lent, and no pod has it":       {limpetv1alpha1.BorrowedAddressStatus{Phase: "Lent"}, long, "it is lent, and no pod has it", ""},
		"lent":                          {limpetv1alpha1.BorrowedAddressStatus{Phase: "Lent", Borrower: "n2"}, long, "it is lent to node n2", ""},
		"the borrower is silent":        {limpetv1alpha1.BorrowedAddressStatus{Phase: "Lent", Borrower: "n2", GiveBack: true}, long, "node n2 shall give it back", "kubectl taint node n2 "},
		"it ends":                       {limpetv1alpha1.BorrowedAddressStatus{Phase: "Ending", Borrower: "n2"}, long, "node n2 shall give it back", "kubectl taint node n2 "},
		"it ended":                      {limpetv1alpha1.BorrowedAddressStatus{Phase: "Ended"}, long, "the node has it back", ""},
		"lent, and nothing tells where": {limpetv1alpha1.BorrowedAddressStatus{Phase: "Lent", Borrower: "?"}, long, "it was lent, and nothing tells to which node", `kubectl patch borrowedaddress b -n shop --type=merge -p '{"status":{"borrower":null,"epoch":1}}'`},
		"lent, before a date came":      {limpetv1alpha1.BorrowedAddressStatus{Phase: "Asked"}, -1, "the node is asked to lend it", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := installed()
			tc.status.Home = "n1"
			if tc.since >= 0 {
				tc.status.Since = &metav1.Time{Time: f.Now.Add(-tc.since)}
			}
			b := limpetv1alpha1.BorrowedAddress{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "b"}, Status: tc.status}
			b.Spec = limpetv1alpha1.BorrowedAddressSpec{Pod: "web-0", IPs: "10.0.0.7"}
			other := b
			other.Namespace, other.Status.Home = "else", "n9"
			f.Loans = []limpetv1alpha1.BorrowedAddress{other, b}
			pod := testenv.APod("web-0").In("shop").OwnedBy(testenv.AStatefulSet("web", 1).In("shop").StatefulSet)
			pod.Status.Phase = corev1.PodPending
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: loan.Gate}}
			f.Pods = []corev1.Pod{*pod.Pod}
			address, err := console.Address(f, "shop", "web-0")
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range []console.Explanation{console.Pending(f, pod.Pod), console.Placement(f, pod.Pod), address} {
				because := strings.Join(e.Because, "\n")
				if !strings.Contains(because, "10.0.0.7 is of node n1: "+tc.says) || strings.Contains(because, "n9") {
					t.Errorf("%s: %q", e.Question, because)
				}
				if tc.remedy != "" && e.Question != "placement" && !strings.Contains(e.Remedy, tc.remedy) {
					t.Errorf("%s: the remedy %q lacks %q", e.Question, e.Remedy, tc.remedy)
				}
			}
			if because := console.Pending(f, pod.Pod).Because; !slices.ContainsFunc(because, func(s string) bool { return strings.Contains(s, "the home of its address") }) {
				t.Errorf("the gate is not told: %q", because)
			}
			f.Loans = f.Loans[1:]
			waits := slices.DeleteFunc(console.Status(f).Problems, func(p console.Problem) bool { return p.Reason != "LoanWaits" })
			if len(waits) > 0 != (tc.remedy != "") || len(waits) > 0 && (waits[0].Object != "BorrowedAddress shop/b" || !strings.Contains(waits[0].Remedy, tc.remedy)) {
				t.Errorf("problems %+v, want %q", waits, tc.remedy)
			}
		})
	}
}
