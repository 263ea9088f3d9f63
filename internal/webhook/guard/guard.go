package guard

import (
	"context"

	"github.com/limpet-io/limpet/internal/disruption"
	"github.com/limpet-io/limpet/pkg/budget"
)

// Verb is what is about to happen to a pod.
type Verb = budget.Verb

// Verbs that guards are asked about.
const (
	Delete = budget.VerbDelete // also each pod of a deletecollection
	Evict  = budget.VerbEvict
	Update = budget.VerbUpdate
	Resize = budget.VerbResize
)

// Request is a verb on one pod. The API server may ask more than once about one deletion,
// so that books must enter it under the pod's UID.
type Request = disruption.Request

// Verdict is the answer of a guard. The zero value allows the request.
type Verdict struct {
	// Refused tells that the request must not happen now.
	Refused bool
	// Gone tells that the pod which the client means is gone, and that another one has its name.
	Gone bool
	// Message says which budget refuses, how many pods it counts, and why.
	Message string
	// Causes are the reasons of a refusal, one for each budget that refuses.
	Causes []string
	// Warnings are for the client of a request that passes.
	Warnings []string
	// Audit is written into the audit log of the API server, by keys without a prefix.
	Audit map[string]string
}

// Guard is what one feature says before something happens to a pod.
type Guard interface {
	// Name appears in errors and logs.
	Name() string
	// Judge decides about one request. It writes nothing when the request is a dry run.
	Judge(ctx context.Context, r Request) (Verdict, error)
}
