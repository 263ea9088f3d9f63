package loan

// NodeInput is what the agent of a node knows about the address of one owner.
type NodeInput struct {
	Node string
	// Owns tells that the ranges of this node have the address, or one of several, and Whole that they have all: the two ranges
	// of a node that is gone may go to two others. None of these can take the address home, and each keeps it out of use.
	Owns, Whole bool
	// Foreign tells that the Node that the Loan names as home exists, and that its ranges do not have the address.
	Foreign bool
	// Loan is nil when there is none.
	Loan *Loan
	// Live tells that the loan was read from the API server, not from a cache.
	Live   bool
	Record Record
	// Own tells that the state of this node has the address for the owner.
	Own bool
	// Attached tells that a life of the owner has the address on this node.
	Attached bool
	// Taken tells that another owner has the address on this node.
	Taken bool
	// Bound tells that a pod of the owner, which has not ended, is bound to this node.
	Bound bool
}

// PlanNode returns the next step of a node. What a Record says follows a live read alone: a cache may show a loan that has
// ended long ago. A write to the Loan is compared by the API server.
func PlanNode(in NodeInput) Step {
	s := in.borrower()
	if l := in.Loan; in.Record.Guest == 0 && (l == nil || l.Borrower != in.Node) && (in.Owns || in.named()) {
		s = in.home()
	}
	if s.Verb == Nothing && !in.Record.Confirmed {
		s = in.write(in.Record, "the loan is known")
	}
	if s.Verb == Write && !in.Live {
		return Step{Verb: Read}
	}
	return s
}

// named reports whether this node answers a loan that names it as home, though its ranges have another address by now. Where its
// Node shows that, it only refuses to lend: the node that has the range may keep the address for the loan.
func (in NodeInput) named() bool {
	return in.Loan != nil && in.Loan.Home == in.Node && (!in.Foreign || in.Loan.Phase == Asked)
}

// part reports whether other nodes have some of several addresses.
func (in NodeInput) part() bool { return in.Owns && !in.Whole }

// foreign reports whether the loan counts for nothing: a stolen token could write it. Home puts loans back that were lost, and
// this one's does not have the address.
func (in NodeInput) foreign() bool { return in.Loan.Borrower == Unknown && in.Foreign }

func (in NodeInput) write(r Record, reason string) Step {
	r.Confirmed = true
	return Step{Verb: Write, Record: r, Reason: reason}
}

// home is the step of the node whose ranges have the address.
func (in NodeInput) home() Step {
	switch {
	case in.Loan == nil && in.Record.Lent != 0:
		return in.restore(in.Record.Lent)
	case in.Loan == nil:
		return Step{}
	case in.Loan.Home != in.Node && in.foreign():
		return Step{Reason: "another node says that it has lent the address"}
	case in.Loan.Home != in.Node && in.Record.Lent == 0 && in.Loan.Phase != Ended:
		s := in.write(Record{Lent: in.Loan.Epoch}, "the range came with a loan")
		s.Unattached = true
		return s
	case in.Loan.Home != in.Node && in.Record.Lent != 0 && in.Loan.Phase == Ended && in.part():
		return in.write(Record{}, "the loan has ended")
	case in.Loan.Home != in.Node:
		return Step{Reason: "the controller has not seen that the range changed hands"}
	}
	switch l := *in.Loan; {
	case l.Phase == Ended:
		return in.ended(l)
	case l.Phase == Asked:
		return in.asked(l)
	case l.Phase == Ending && l.Borrower == "" && (!in.part() || l.Free):
		return put(l.in(Ended), "the address is home")
	case in.Record.Lent == 0 && in.Owns: // home was proven dead, or its state is a new one
		return in.write(Record{Lent: l.Epoch}, "lent while home was away")
	case l.Borrower == "" && in.Bound && !in.part():
		return put(l.in(Ended), "the pod is home")
	}
	return Step{}
}

// restore puts back a loan that was lost with its kind.
func (in NodeInput) restore(epoch int64) Step {
	return put(Loan{Home: in.Node, Borrower: Unknown, Phase: Lent, Epoch: epoch + 1}, "the loan was lost")
}

// asked lends once no pod has the address.
func (in NodeInput) asked(l Loan) Step {
	switch {
	case in.Taken:
		l.Free = true
		return put(l.in(Ended), "another pod has the address")
	case in.part() && (in.Record.Lent == 0 || in.Record.Lent == l.Epoch): // another node may have given its one away
		l.Free = true
		return put(l.in(Ended), "the addresses are of several nodes")
	case in.Record.Lent != 0 && in.Record.Lent != l.Epoch && l.Borrower == "":
		return in.restore(l.Epoch)
	case in.Record.Lent == 0 && (in.Bound || l.Free):
		return put(l.in(Ended), "the address is not needed elsewhere")
	case in.Record.Lent == 0 && in.Attached:
		return Step{Reason: "the earlier pod has not ended"}
	case in.Record.Lent == 0:
		s := in.write(Record{Lent: l.Epoch}, "home lends")
		s.Unattached = true
		return s
	}
	if !in.Owns { // another node may have given it away
		l.Free = true
		return put(l.in(Ended), "the address is not in the ranges of this node")
	}
	return put(l.in(Lent), "home has lent")
}

// ended takes the address back for the owner, unless the owner does not return.
func (in NodeInput) ended(l Loan) Step {
	keep := !l.Free && !in.Taken && in.Whole
	switch {
	case in.Record.Lent == 0 && in.part():
		return Step{Reason: "the controller removes the loan once all nodes have heard of its end"}
	case in.Record.Lent == 0 && (in.Own || !keep):
		return Step{Verb: Remove, Reason: "the loan has ended"}
	}
	s := in.write(Record{}, "the loan has ended")
	s.Reserve = keep
	return s
}

// borrower is the step of each other node.
func (in NodeInput) borrower() Step {
	if in.Record.Guest != 0 {
		return in.guest()
	}
	l := in.Loan
	switch {
	case in.Record.Lent != 0 && (l == nil || l.Phase == Ended): // by a home whose range is another node's by now
		return in.write(Record{}, "the loan has ended")
	case l == nil:
		return Step{}
	case l.Borrower == in.Node && in.Bound:
		return in.write(Record{Guest: l.Epoch}, "borrowed")
	case l.Borrower == in.Node:
		return put(l.given(""), "given back")
	}
	return Step{}
}

// guest keeps, renews or gives back the address of a guest.
func (in NodeInput) guest() Step {
	l, used := in.Loan, in.Attached || in.Bound
	switch {
	case l == nil && in.Owns: // home is this node
		return in.restore(in.Record.Guest)
	case l == nil && !in.Attached: // it may have ended while this node was taken for dead
		return in.leave("there is no loan")
	case l == nil, l.Borrower == Unknown:
		return Step{Reason: "the loan was lost"}
	case l.Borrower != in.Node && in.Attached:
		return Step{Reason: "the node was taken for dead, and the pod has not ended"}
	case l.Borrower != in.Node:
		return in.leave("the node was taken for dead")
	case (l.GiveBack || l.Phase == Ending) && !used:
		return in.leave("recalled")
	case l.Epoch != in.Record.Guest:
		return in.write(Record{Guest: l.Epoch}, "borrowed again")
	}
	return Step{}
}

// leave gives back. A node that got the range meanwhile keeps the address out of use, as home does.
func (in NodeInput) leave(reason string) Step {
	s := in.write(Record{}, reason)
	if in.Owns {
		s.Record.Lent = in.Loan.Epoch
	}
	s.Unattached = true
	return s
}
