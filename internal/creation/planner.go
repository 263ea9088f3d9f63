package creation

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Facts are what all planners know of one creation. Planners must not change them.
type Facts struct {
	// Pod as its owner wrote it, with the annotations of Kept.
	Pod *corev1.Pod
	// Kept is the patch of the Keeper.
	Kept podpatch.Patch
	// UID of the request. Books enter the pod under it.
	UID types.UID
	// DryRun tells that the pod will not be stored.
	DryRun bool
	// Retention is what the pod asks for its addresses.
	Retention reservation.RetentionRequest
	// Node is where an earlier planner sends the pod; "" where none does.
	Node string
	// Place is what earlier planners require of the pod's node.
	Place []corev1.NodeSelectorRequirement
	// Labelled tells that the API server sent the pod because of the label of its namespace for
	// spreads.
	Labelled bool
	// Now is the time of the request.
	Now time.Time
}

// Pin is the name of the planner that sends a pod to its recorded node. A subset may overrule its plan.
const Pin = "pin"

// Planner is the part that one feature has in the creation of pods.
type Planner interface {
	// Name appears in warnings and logs.
	Name() string
	// Plan decides what the feature adds to a pod. It changes nothing anywhere.
	Plan(ctx context.Context, facts Facts) (Plan, error)
}

// Keeper is a planner that also knows what others ask for the addresses of a pod, and whose they are.
type Keeper interface {
	// Keep returns the annotations with which the pod asks for it. All planners see them on the pod.
	Keep(ctx context.Context, facts Facts) (podpatch.Patch, error)
}

// ErrEssential is returned for a pod that must not be created without the plan of a feature. The
// pod is refused, and its owner tries again.
var ErrEssential = errors.New("the pod must not be created without this plan")

// Plan is what a feature adds to a pod that is being created.
type Plan struct {
	Patch podpatch.Patch
	// Instead takes the place of the patch if a later planner overrules the plan.
	Instead podpatch.Patch
	// Node is where the plan sends the pod, for the planners after it; "" for nowhere.
	Node string
	// Commit decides what depends on the feature's book; nil for a feature without one. It is
	// called once all planners have planned, in their order.
	Commit Commit
}

// Commit enters a plan into a book, and returns what the plan adds by that. A dry run adds the
// same, and writes nothing. After an error the pod is refused.
type Commit func(ctx context.Context, dryRun bool) (Addition, error)

// Addition is what a plan adds when it is in the books.
type Addition struct {
	Patch podpatch.Patch
	// Overrules tells that the plan of an earlier planner does not apply; "" for none. Its patch is
	// replaced by what the plan has instead.
	Overrules string
	Warnings  []string
}
