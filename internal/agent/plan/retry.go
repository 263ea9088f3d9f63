package plan

import (
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Answer is what the answer of the API server to a request means for the next one.
type Answer string

// The answers.
const (
	Written Answer = "written"
	// Busy is the answer to everything: the server is away, overloaded or does not know the agent.
	// Nothing is sent for a while.
	Busy Answer = "busy"
	// Refused concerns one object, as a quota or a policy does. The others go on.
	Refused Answer = "refused"
	// Outdated says that the object on the server is not the one that the agent knows.
	Outdated Answer = "outdated"
	// Vanished says that the object is not on the server any more.
	Vanished Answer = "vanished"
	// WithoutNamespace says that the namespace of the object is terminating or gone.
	WithoutNamespace Answer = "without a namespace"
)

// Judge returns what the answer to a write means.
func Judge(verb Verb, err error) Answer {
	notFound := apierrors.IsNotFound(err)
	switch {
	case err == nil:
		return Written
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), notFound && missing(err, "namespaces"):
		return WithoutNamespace
	case notFound && verb == Delete:
		return Written
	case notFound && verb == Update:
		return Vanished
	case notFound: // the kind itself is not served
		return Busy
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return Outdated
	}
	switch code(err) {
	case 0, http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return Busy
	}
	return Refused
}

// missing reports whether an error says that an object of a resource is not there.
func missing(err error, resource string) bool {
	status, ok := err.(apierrors.APIStatus)
	return ok && status.Status().Details != nil && status.Status().Details.Kind == resource
}

// code returns the status code of an error; 0 when no server answered.
func code(err error) int32 {
	status, ok := err.(apierrors.APIStatus)
	if !ok || status.Status().Reason == metav1.StatusReasonUnknown && status.Status().Code == 0 {
		return 0
	}
	return status.Status().Code
}

// Delay returns how long to wait after a number of failures in a row: twice as long after each, up to a
// limit, with a random part between half of it and all. What the server asks for is a lower limit, to
// which the random part is added: the clients that it sent away must not come back together.
func Delay(failures int, least, most, asked time.Duration, random float64) time.Duration {
	wait := least
	for ; failures > 1 && wait < most; failures-- {
		wait *= 2
	}
	wait = min(wait, most)
	return max(wait/2, asked) + time.Duration(random*float64(wait/2))
}

// Reopen returns how long to wait until a watch is opened again. All agents lose their server at the same
// moment, so the first time is anywhere within the spread.
func Reopen(failures int, least, most, spread, asked time.Duration, random float64) time.Duration {
	if failures <= 1 {
		return asked + time.Duration(random*float64(spread))
	}
	return max(Delay(failures-1, least, most, asked, random), asked+time.Duration(random*float64(spread)))
}

// mostAsked bounds what the agent believes of a server's wish: one wrong answer must not end its work.
const mostAsked = 10 * time.Minute

// Asked returns for how long the server asks the client to stay away.
func Asked(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return min(max(0, time.Duration(seconds)*time.Second), mostAsked)
}
