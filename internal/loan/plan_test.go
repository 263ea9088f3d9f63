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

// TestAHomeThatHasAnotherRange refuses to lend, and keeps no address that it cannot hand out. Where its Node shows that it lost the
// range, it ends no loan that another node may keep.
func TestAHomeThatHasAnotherRange(t *testing.T) {
	lent := loan.Record{Lent: 3, Confirmed: true}
	for name, tc := range map[string]struct {
		phase   loan.Phase
		foreign bool
		want    loan.Step
	}{
		"asked":                            {loan.Asked, true, loan.Step{Verb: loan.Put, Loan: loan.Loan{Home: "home", Phase: loan.Ended, Epoch: 3, Free: true}}},
		"asked, on a segment":              {loan.Asked, false, loan.Step{Verb: loan.Put, Loan: loan.Loan{Home: "home", Phase: loan.Ended, Epoch: 3, Free: true}}},
		"the loan ends":                    {loan.Ending, true, loan.Step{}},
		"the loan ends, on a segment":      {loan.Ending, false, loan.Step{Verb: loan.Put, Loan: loan.Loan{Home: "home", Phase: loan.Ended, Epoch: 3}}},
		"the loan has ended":               {loan.Ended, true, loan.Step{Verb: loan.Write, Record: loan.Record{Confirmed: true}}},
		"the loan has ended, on a segment": {loan.Ended, false, loan.Step{Verb: loan.Write, Record: loan.Record{Confirmed: true}}},
		"there is no loan":                 {"", false, loan.Step{Verb: loan.Write, Record: loan.Record{Confirmed: true}}},
	} {
		in := loan.NodeInput{Node: "home", Foreign: tc.foreign, Live: true, Record: lent}
		if tc.phase != "" {
			in.Loan = &loan.Loan{Home: "home", Phase: tc.phase, Epoch: 3}
		}
		s := loan.PlanNode(in)
		if s.Reason = ""; s != tc.want {
			t.Errorf("%s: the step is %+v, want %+v", name, s, tc.want)
		}
	}
}

// TestTheControllerEndsWhatAHomeWithAnotherRangeHasLent once no pod of the owner needs it, and lends nothing for a home that lives.
func TestTheControllerEndsWhatAHomeWithAnotherRangeHasLent(t *testing.T) {
	in := loan.PlaceInput{Home: "home", Foreign: true, Kept: true, Over: true}
	in.Takes, in.Dead = func(string) bool { return false }, func(string) bool { return false }
	l := loan.Loan{Home: "home", Phase: loan.Ending, Epoch: 3, Free: true}
	in.Loan = &l
	if p := loan.PlanPlace(in); p.Verb != loan.Put || p.Loan.Phase != loan.Ended {
		t.Errorf("the step is %+v", p.Step)
	}
	l.Phase, in.Over = loan.Ended, false
	if p := loan.PlanPlace(in); p.Verb != loan.Nothing {
		t.Errorf("while a node keeps it, the step is %+v", p.Step)
	}
	if in.Kept = false; loan.PlanPlace(in).Verb != loan.Remove {
		t.Errorf("the step is %+v", loan.PlanPlace(in).Step)
	}
	l.Phase, in.Waits = loan.Asked, true
	if p := loan.PlanPlace(in); p.Verb != loan.Nothing || p.Open {
		t.Errorf("before home answers, it is %+v", p)
	}
}
