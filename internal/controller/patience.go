package controller

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// How long a reconcile waits for the cache to show what the API server has: ever longer,
// while it does not.
const (
	retrySoon = 10 * time.Millisecond
	retryLate = time.Minute
)

// firstTry and retryLate bound how long a reconcile that failed waits: what comes back, an
// API server or a kind that it serves, is used within a minute.
const firstTry = 5 * time.Millisecond

func backOff[R comparable](longest time.Duration) workqueue.TypedRateLimiter[R] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[R](firstTry, longest)
}

// cacheBehind says whether a write was refused because the cache, from which it was
// decided, is behind the API server. An object that is not found is no such refusal:
// where it was to be made, its namespace or its kind is missing; where it was to be
// changed, it is gone, which the cache will tell.
func cacheBehind(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err)
}

// patient is a reconciler that tries again when the cache was behind, at first soon, with
// neither a log line nor the count of a real error.
type patient[R comparable] struct {
	reconcile.TypedReconciler[R]
	tries workqueue.TypedRateLimiter[R]
}

func patiently[R comparable](r reconcile.TypedReconciler[R]) reconcile.TypedReconciler[R] {
	return patient[R]{r, workqueue.NewTypedItemExponentialFailureRateLimiter[R](retrySoon, retryLate)}
}

// Reconcile passes on every other error, for the queue's own delay.
func (p patient[R]) Reconcile(ctx context.Context, req R) (ctrl.Result, error) {
	result, err := p.TypedReconciler.Reconcile(ctx, req)
	if cacheBehind(err) {
		return ctrl.Result{RequeueAfter: p.tries.When(req)}, nil
	}
	p.tries.Forget(req)
	if err != nil {
		return ctrl.Result{}, err
	}
	return result, nil
}
