package cluster

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// RetryLate is the longest delay of a reconcile that is tried again: an API server, or a
// kind that it serves, is used within a minute after it has come back.
const RetryLate = time.Minute

const (
	conflictRetry = 10 * time.Millisecond // the first delay after a conflict
	failureRetry  = 5 * time.Millisecond  // the first delay after any other error
)

// BackOff delays reconciles that failed, doubling the delay up to the longest.
func BackOff[R comparable](longest time.Duration) workqueue.TypedRateLimiter[R] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[R](failureRetry, longest)
}

// Conflict reports whether a write was refused because the cache, from which it was decided,
// is behind the API server. NotFound is no conflict: either the namespace or the kind is
// missing, or the object is gone, which the cache will show.
func Conflict(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// conflictRetrier retries conflicts without a log line and without the count of an error.
type conflictRetrier[R comparable] struct {
	reconcile.TypedReconciler[R]
	tries workqueue.TypedRateLimiter[R]
}

// RetryOnConflict makes a reconciler retry conflicts soon, at growing delays, until the
// cache has caught up.
func RetryOnConflict[R comparable](r reconcile.TypedReconciler[R]) reconcile.TypedReconciler[R] {
	return conflictRetrier[R]{r, workqueue.NewTypedItemExponentialFailureRateLimiter[R](conflictRetry, RetryLate)}
}

// Reconcile passes on every other error, for the queue's own delay.
func (p conflictRetrier[R]) Reconcile(ctx context.Context, req R) (ctrl.Result, error) {
	result, err := p.TypedReconciler.Reconcile(ctx, req)
	if Conflict(err) {
		return ctrl.Result{RequeueAfter: p.tries.When(req)}, nil
	}
	p.tries.Forget(req)
	if err != nil {
		return ctrl.Result{}, err
	}
	return result, nil
}
