package loan_test

import (
	"testing"

	"github.com/limpet-io/limpet/internal/loan"
)

// TestAnOwnerThatIsBack keeps its address: that it did not return counts no more, however far its loan is.
func TestAnOwnerThatIsBack(t *testing.T) {
	ending := loan.Loan{Home: "home", Phase: loan.Ending, Epoch: 3, Free: true}
	for name, in := range map[string]loan.PlaceInput{
		"home can take the pod":    {Waits: true, Takes: func(node string) bool { return node == "home" }},
		"home cannot take the pod": {Waits: true, Takes: func(string) bool { return false }},
		"the pod is elsewhere":     {Bound: "away", Takes: func(string) bool { return false }},
	} {
		t.Run(name, func(t *testing.T) {
			in.Loan, in.Home, in.Owner, in.Whole = &ending, "home", "home", true
			in.Dead = func(string) bool { return false }
			if p := loan.PlanPlace(in); p.Verb != loan.Put || p.Loan.Free {
				t.Errorf("the step is %+v", p.Step)
			}
		})
	}
}

// TestAHomeThatHasAnotherRange ends the loans that name it, and does not keep an address that it cannot hand out.
func TestAHomeThatHasAnotherRange(t *testing.T) {
	in := loan.NodeInput{Node: "home", Foreign: true, Live: true, Record: loan.Record{Lent: 3, Confirmed: true}}
	in.Loan = &loan.Loan{Home: "home", Phase: loan.Ending, Epoch: 3}
	if s := loan.PlanNode(in); s.Verb != loan.Put || s.Loan.Phase != loan.Ended {
		t.Errorf("the step is %+v", s)
	}
	in.Loan = &loan.Loan{Home: "home", Phase: loan.Ended, Epoch: 3}
	if s := loan.PlanNode(in); s.Verb != loan.Write || s.Reserve || s.Record.Lent != 0 {
		t.Errorf("the step is %+v", s)
	}
	if in.Loan = nil; loan.PlanNode(in).Verb != loan.Write || loan.PlanNode(in).Record.Lent != 0 { // the node that has the range has ended it
		t.Errorf("the step is %+v", loan.PlanNode(in))
	}
}
