package console

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/platform/fit"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// lateLoan is how long a node may take to answer about a loan before an operator should know.
const lateLoan = time.Minute

// loansOf returns the loans of the addresses of a pod, or of its owner.
func loansOf(f *facts.Facts, pod *corev1.Pod) (all []*limpetv1alpha1.BorrowedAddress) {
	for i := range f.Loans {
		if b := &f.Loans[i]; b.Namespace == pod.Namespace && b.Spec.Pod == reservation.OwnerName(pod.Name, pod.Annotations) {
			all = append(all, b)
		}
	}
	return all
}

// lent adds where the addresses of a pod that follows may be used, and what ends the wait for a node.
func lent(e *Explanation, f *facts.Facts, pod *corev1.Pod) {
	for _, b := range loansOf(f, pod) {
		e.because("%s is of node %s: %s", b.Spec.IPs, b.Status.Home, LoanState(b))
		if _, remedy := late(b, f.Now); remedy != "" {
			e.Remedy = remedy
		}
	}
}

// LoanState says how far a loan is.
func LoanState(b *limpetv1alpha1.BorrowedAddress) string {
	s := b.Status
	switch phase, borrower := loan.Phase(s.Phase), s.Borrower; {
	case borrower == loan.Unknown:
		return "it was lent, and nothing tells to which node"
	case phase == loan.Asked:
		return "the node is asked to lend it"
	case phase == loan.Ended:
		return "the node has it back"
	case phase == loan.Ending || s.GiveBack:
		return "node " + borrower + " shall give it back"
	case borrower == "":
		return "it is lent, and no pod has it"
	default:
		return "it is lent to node " + borrower
	}
}

// late returns the node whose answer a loan has waited for too long, and what to do; "" for none.
func late(b *limpetv1alpha1.BorrowedAddress, now time.Time) (node, remedy string) {
	s := b.Status
	if s.Since == nil || now.Sub(s.Since.Time) < lateLoan {
		return "", ""
	}
	switch {
	case s.Borrower == loan.Unknown:
		return s.Home, fmt.Sprintf(`if no pod has it, on any node: kubectl patch borrowedaddress %s -n %s --type=merge -p '{"status":{"borrower":null,"epoch":%d}}'`, b.Name, b.Namespace, s.Epoch+1)
	case s.Borrower != "" && (s.GiveBack || loan.Phase(s.Phase) == loan.Ending):
		node = s.Borrower
	case loan.Phase(s.Phase) == loan.Asked || loan.Phase(s.Phase) == loan.Ending:
		node = s.Home
	default:
		return "", ""
	}
	return node, fmt.Sprintf("bring node %s back; if it is dead, %s", node, fit.SayDead(node))
}

// loans returns the loans that wait for a node.
func loans(f *facts.Facts) []Problem {
	var all []Problem
	for i := range f.Loans {
		b := &f.Loans[i]
		if node, remedy := late(b, f.Now); node != "" {
			all = append(all, Problem{
				Attention, "BorrowedAddress " + b.Namespace + "/" + b.Name, "LoanWaits",
				fmt.Sprintf("%s of pod %s, home node %s: %s", b.Spec.IPs, b.Spec.Pod, b.Status.Home, LoanState(b)), remedy,
			})
		}
	}
	return all
}
