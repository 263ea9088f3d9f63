package guard

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// Verb is what is about to happen to a pod.
type Verb string

// Verbs that guards are asked about.
const (
	Delete Verb = "delete" // also each pod of a deletecollection
	Evict  Verb = "evict"
	Update Verb = "update"
	Resize Verb = "resize"
)

// Request is a verb on one pod. The API server may ask more than once about one deletion,
// so that books must enter it under the pod's UID.
type Request struct {
	Verb Verb
	// Pod as it is now.
	Pod *corev1.Pod
	// Changed is the pod after an Update or a Resize; nil for the other verbs.
	Changed *corev1.Pod
	// DryRun tells that nothing will happen to the pod.
	DryRun bool
	// User that asks, and the groups of the user.
	User   string
	Groups []string
	// ByUID tells that the client names the pod by its UID too.
	ByUID bool
}

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
