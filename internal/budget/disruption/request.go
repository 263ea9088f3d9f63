package disruption

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/budget"
)

// Request is one request that takes a pod away or changes it.
type Request struct {
	// Verb is what the client asks for.
	Verb budget.Verb
	// Pod as it is now, and Changed as it will be; nil unless the verb changes it in place.
	Pod, Changed *corev1.Pod
	// User that asks, and all that the API server tells of the user.
	User string
	Info authenticationv1.UserInfo
	// ByUID tells that the client names the pod by its UID too.
	ByUID bool
	// Own tells that the controller itself asks, and not the API server.
	Own bool
	// DryRun tells that nothing will happen to the pod. Nothing is written then.
	DryRun bool
}

// Answer is the answer to a request.
type Answer struct {
	budget.Decision
	// Vector is the way in which the pod goes.
	Vector budget.Vector
	// Left says of a dry run that passes how many pods may go after it, for each budget.
	Left []string

	taken *taken // nil when nothing was entered
}

// Refused reports whether the pod must stay for now.
func (a Answer) Refused() bool { return a.Verdict == budget.Refused }
