package loan

import "cmp"

// PlaceInput is what the controller knows about the address of one owner.
type PlaceInput struct {
	// Loan is nil when there is none.
	Loan *Loan
	// Home is the node that is recorded for the owner.
	Home string
	// Takes reports whether a node can take the pod now.
	Takes func(node string) bool
	// Dead reports whether a node is proven dead: its Node object is gone, or a person said so.
	Dead func(node string) bool
	// Owner is the node whose ranges have the address, or the first of several that is not proven dead, by the Nodes of the API server as they were read after the Loan; "" for
	// none. A range can go to another node, whose agent reads the loans before its first pod: one of the two reads sees the
	// other's write.
	Owner string
	// Whole tells that the ranges of Owner have all of several addresses: else no pod can have them there but as a guest. Kept
	// tells that a node shows one of these addresses for the owner, and may put the loan back: it is gone, or its ranges have one.
	Whole, Kept bool
	// Foreign tells that the Node that the Loan names as home exists, and that its ranges do not have the address.
	Foreign bool
	// Waits tells that a pod of the owner waits for its node.
	Waits bool
	// Bound is the node to which the pod of the owner is bound; "" for none. Shown tells that the status of that pod has the
	// address, which only the kubelet of that node writes.
	Bound string
	Shown bool
	// Over tells that the owner does not return.
	Over bool
	// Epoch is that of a new loan, above those of all earlier ones.
	Epoch int64
}

// Placing is the next step of the controller, and what the pod may do.
type Placing struct {
	Step
	// Open tells to open the gate of the pod that waits.
	Open bool
}

// Begins reports whether the step lends what the node of the range may have given away: there is no loan, or it has ended.
func (p Placing) Begins(before *Loan) bool {
	return p.Verb == Put && p.Loan.Phase != Ended && (before == nil || before.Phase == Ended)
}

// PlanPlace returns what the controller does next for an owner: it asks home to lend, sends the pod home where home can
// take it, and moves the address on where the borrower cannot. It opens the gate once a node may have the address. What it
// asked of home it never takes back itself: home may have lent meanwhile.
func PlanPlace(in PlaceInput) Placing {
	if in.Loan == nil {
		return in.first()
	}
	l := *in.Loan
	switch {
	case l.Borrower != "" && in.Dead(l.Borrower):
		return step(l.given(""), "the borrower is dead")
	case in.Owner != "" && in.Owner != l.Home && l.Borrower == Unknown && in.Foreign:
		return Placing{Step: Step{Verb: Remove, Reason: "home does not own the address"}}
	case in.Owner != "" && in.Owner != l.Home:
		l.Home = in.Owner
		return step(l, "the range changed hands")
	case l.Phase == Ended && (in.Owner != "" || in.Foreign) && !in.Whole && !in.Kept:
		return Placing{Step: Step{Verb: Remove, Reason: "no node keeps the addresses"}}
	case in.Over && l.Phase != Ended && (!l.Free || l.Phase == Lent):
		if l.Free, l.GiveBack = true, false; l.Phase == Lent {
			l.Phase = Ending
		}
		return step(l, "the owner does not return")
	case in.Over && l.Borrower == "" && in.Owner == "" && l.Phase != Ended: // a node that gets the range now must not keep it
		return step(l.in(Ended), "home is gone")
	case in.Over && l.Borrower == "" && in.Owner == "" && !in.Kept:
		return Placing{Step: Step{Verb: Remove, Reason: "home is gone"}}
	case in.Over:
		return Placing{}
	case l.Phase != Lent && in.Dead(cmp.Or(in.Owner, l.Home)):
		l.Free = false
		return step(l.in(Lent), "home is dead")
	case in.Bound != "":
		return in.bound(l)
	case !in.Waits:
		return Placing{}
	}
	return in.waiting(l)
}

func step(l Loan, reason string) Placing { return Placing{Step: put(l, reason)} }

// first decides without a loan.
func (in PlaceInput) first() Placing {
	loan := Loan{Home: in.Home, Phase: Asked, Epoch: in.Epoch}
	elsewhere := in.Bound != "" && in.Bound != in.Home
	switch {
	case in.Over || !in.Waits && !elsewhere:
		return Placing{}
	case elsewhere:
		return step(loan, "the pod is elsewhere")
	case in.Takes(in.Home):
		return Placing{Open: true}
	}
	return step(loan, "home cannot take the pod")
}

// bound lets the address come to the node of the pod. Home itself sees that its pod is home.
func (in PlaceInput) bound(l Loan) Placing {
	home := in.Bound == l.Home && in.Whole
	switch {
	case in.Dead(in.Bound), l.Phase == Lent && l.Borrower == Unknown && !in.Shown:
		return Placing{}
	case l.Phase == Lent && l.Borrower == Unknown && home:
		return step(l.given(""), "the pod is home")
	case l.Phase == Lent && (l.Borrower == "" && !home || l.Borrower == Unknown):
		return step(l.given(in.Bound), "the pod is there")
	case l.Phase == Lent && l.Borrower != "" && l.Borrower != in.Bound && !l.GiveBack:
		l.GiveBack = true
		return step(l, "the pod is on another node")
	case l.Phase == Ending && !home:
		l.Free = false
		return step(l.in(Lent), "the pod is not home")
	}
	return Placing{}
}

// waiting decides for a pod behind its gate.
func (in PlaceInput) waiting(l Loan) Placing {
	home := in.Takes(l.Home) && in.Whole
	switch {
	case home && l.Phase == Lent, home && l.Phase == Ending && l.Free:
		l.GiveBack, l.Free = false, false
		return step(l.in(Ending), "home can take the pod")
	case home || l.Phase == Asked || l.Phase == Ended:
		return Placing{}
	case l.Phase == Ending:
		l.Free = false
		return step(l.in(Lent), "home cannot take the pod")
	case l.GiveBack && l.Borrower != "":
		return Placing{}
	case l.Borrower == "" || in.Takes(l.Borrower):
		return Placing{Open: true}
	}
	l.GiveBack = true
	return step(l, "the borrower cannot take the pod")
}
