package loan

// AddInput is what an ADD knows about the address of an owner that follows.
type AddInput struct {
	Record Record
	// Own tells that this node has an address for the owner: of an earlier life, reserved or as a guest.
	Own bool
	// Elsewhere tells that the pod has an address on another node, as the webhook wrote on the pod.
	Elsewhere bool
}

// AddVerdict says which address an ADD takes.
type AddVerdict int

const (
	// Wait means that the agent has not answered: the ADD waits, and then fails with code 11.
	Wait AddVerdict = iota
	// Claim means that the ADD takes the address that this node has for the owner.
	Claim
	// Allocate means that the ADD takes a free address.
	Allocate
)

// PlanAdd decides which address a pod gets that follows. It reads the record alone: the agent has written what it reads.
func PlanAdd(in AddInput) AddVerdict {
	switch {
	case in.Record.Lent != 0:
		return Wait
	case in.Own && in.Record.Confirmed:
		return Claim
	case in.Own || in.Elsewhere:
		return Wait
	}
	return Allocate
}
