// Package evict deletes pods for the controller. No other package of the controller may
// delete or evict a pod. The budgets of the pod are asked first.
package evict

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Evictor deletes pods.
type Evictor struct {
	Client client.Client
	// Ask asks the budgets of a pod before it is deleted; nil where there are none.
	Ask func(ctx context.Context, pod *corev1.Pod) (Leave, error)
}

// Leave is what the budgets of a pod say.
type Leave struct {
	// Refused reports that a budget keeps the pod, and Message says which, and what would let it go.
	Refused bool
	Message string
	// Return gives back what was taken, after a deletion that failed.
	Return func(ctx context.Context) error
}

// RefusedError is the error for a pod that its budgets keep for now.
type RefusedError struct {
	Pod client.ObjectKey
	// Message says which budget keeps the pod, and what would let it go.
	Message string
}

// Error says which pod stays, and why.
func (r *RefusedError) Error() string { return fmt.Sprintf("pod %s must stay: %s", r.Pod, r.Message) }

// Delete deletes a pod if it is still the one that was read, unchanged; any other pod of
// its name stays, and the error is a conflict. It returns false for a pod that is gone. The
// error is a RefusedError when a budget keeps the pod.
func (e *Evictor) Delete(ctx context.Context, pod *corev1.Pod) (deleted bool, err error) {
	return e.remove(ctx, pod)
}

// DeleteUnstarted deletes a pod as Delete does, and does not wait for the kubelet of the pod's
// node, which is silent. A status that the kubelet wrote since the pod was read is a conflict.
func (e *Evictor) DeleteUnstarted(ctx context.Context, pod *corev1.Pod) (deleted bool, err error) {
	return e.remove(ctx, pod, client.GracePeriodSeconds(0))
}

func (e *Evictor) remove(ctx context.Context, pod *corev1.Pod, how ...client.DeleteOption) (deleted bool, err error) {
	leave, err := e.ask(ctx, pod)
	if err != nil {
		return false, err
	}
	unchanged := client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}
	err = e.Client.Delete(ctx, pod.DeepCopy(), append(how, unchanged)...)
	switch {
	case err == nil:
		return true, nil
	case apierrors.IsNotFound(err): // the entry ends when the caches show that
		return false, nil
	case e.Ask != nil && failed(err):
		err = errors.Join(err, leave.Return(ctx))
	}
	return false, fmt.Errorf("delete pod %s: %w", client.ObjectKeyFromObject(pod), err)
}

// failed reports whether a request was refused, so that nothing was or will be written. After a
// timeout, or without an answer, the API server may still write.
func failed(err error) bool {
	return slices.Contains(refusals, apierrors.ReasonForError(err))
}

// refusals are the reasons of the API server for a request that it has refused.
var refusals = []metav1.StatusReason{
	metav1.StatusReasonConflict, metav1.StatusReasonForbidden, metav1.StatusReasonTooManyRequests,
	metav1.StatusReasonUnauthorized, metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest,
}

// ask asks the budgets of a pod.
func (e *Evictor) ask(ctx context.Context, pod *corev1.Pod) (Leave, error) {
	if e.Ask == nil {
		return Leave{}, nil
	}
	key := client.ObjectKeyFromObject(pod)
	leave, err := e.Ask(ctx, pod)
	switch {
	case err != nil:
		return leave, fmt.Errorf("delete pod %s: ask its budgets: %w", key, err)
	case leave.Refused:
		return leave, fmt.Errorf("delete pod: %w", &RefusedError{Pod: key, Message: leave.Message})
	}
	return leave, nil
}
