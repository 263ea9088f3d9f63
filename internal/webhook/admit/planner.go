package admit

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/pkg/podpatch"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Facts are what all planners know of one creation. They must not be changed.
type Facts struct {
	// Pod as its owner wrote it.
	Pod *corev1.Pod
	// UID of the request. Books enter the pod under it.
	UID types.UID
	// DryRun tells that the pod will not be stored.
	DryRun bool
	// Retention is what the pod asks for its addresses.
	Retention reservation.RetentionRequest
	// Node is where an earlier planner sends the pod; "" where none does.
	Node string
	// Now is the time of the request.
	Now time.Time
}

// Planner is the part that one feature has in the creation of pods.
type Planner interface {
	// Name appears in warnings and logs.
	Name() string
	// Plan decides what the feature adds to a pod. It changes nothing anywhere.
	Plan(ctx context.Context, facts Facts) (Plan, error)
}

// Plan is what a feature adds to a pod that is being created.
type Plan struct {
	Patch podpatch.Patch
	// Node is where the plan sends the pod, for the planners after it; "" for nowhere.
	Node string
	// Warnings are shown to the user.
	Warnings []string
	// Commit enters the plan into the feature's book; nil for a feature without one. It is
	// called once all planners agree, in their order, and never on a dry run.
	Commit Commit
}

// Commit enters a plan into a book.
type Commit func(context.Context) error
