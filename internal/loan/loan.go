package loan

// Phase says how far a loan is.
type Phase string

const (
	// Asked means that the controller asks home to lend the address.
	Asked Phase = "Asked"
	// Lent means that home hands out the address to no pod; the borrower may.
	Lent Phase = "Lent"
	// Ending means that the address goes home as soon as the borrower has given it back.
	Ending Phase = "Ending"
	// Ended means that home has the address back; home removes the loan.
	Ended Phase = "Ended"
)

// Loan is what the API server has about the address of one owner.
type Loan struct {
	// Home is the node whose ranges have the address.
	Home string
	// Borrower is the node that may hand out the address to its owner; "" for none, Unknown if only that node knows it.
	Borrower string
	Phase    Phase
	// Epoch tells one use of the address from another. It grows with each change of the borrower, and no two loans begin with
	// the same one.
	Epoch int64
	// GiveBack asks the borrower to give the address back, so that another node may borrow it.
	GiveBack bool
	// Free tells home to free the address at the end, as the owner does not return.
	Free bool
}

// Unknown is the borrower of a loan that home put back: all loans were lost with their kind. A node that has the address as
// a guest says so; if none does, only a person can know.
const Unknown = "?"

// given returns the loan with another borrower.
func (l Loan) given(borrower string) Loan {
	l.Borrower, l.GiveBack = borrower, false
	l.Epoch++
	return l
}

func (l Loan) in(phase Phase) Loan {
	l.Phase = phase
	return l
}

// Record is what the state file of a node has about the address of one owner.
type Record struct {
	// Lent is the epoch of the loan that home has made; 0 for none.
	Lent int64
	// Guest is the epoch of the loan by which this node has the address; 0 for none.
	Guest int64
	// Confirmed is true once the agent has read the loan since the node started.
	Confirmed bool
}

// Verb is a kind of step.
type Verb int

const (
	// Nothing is to be done.
	Nothing Verb = iota
	// Read the loan from the API server: what was read comes from a cache, and the next step must not.
	Read
	// Write the Record, durably.
	Write
	// Put the Loan, if it is still the one that was read.
	Put
	// Remove the Loan, if it is still the one that was read.
	Remove
)

// Step is the next thing to do. After it everything is read again.
type Step struct {
	Verb   Verb
	Record Record
	// Unattached makes the Write fail if a pod has the address at that moment.
	Unattached bool
	// Reserve tells the Write to keep the address for the owner, without an end.
	Reserve bool
	Loan    Loan
	// Reason says why, for events and logs.
	Reason string
}

func put(l Loan, reason string) Step { return Step{Verb: Put, Loan: l, Reason: reason} }
