package validate

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/cluster"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

const (
	// labelTimeout leaves the API server a second of the time that it waits for the webhook.
	labelTimeout = 4 * time.Second
	// labelAttempts bounds the attempts against other writers of the Namespace.
	labelAttempts = 5
	// labelNoticed is the time that API servers get to notice a new label by their watches,
	// before the first budget is stored.
	labelNoticed = 200 * time.Millisecond
)

// Namespaces sets the label by which the API server sends requests about pods to the guards.
type Namespaces struct {
	// Live reads past the cache: the label may have been removed a moment ago.
	Live *cluster.LiveReader
	// Client writes.
	Client client.Client
	Clock  clock.Clock
}

// Label makes sure that a namespace has the label for a budget. The label is never changed
// from closed to open here. The budget must not be stored when this fails: no request would
// be judged by it.
func (n *Namespaces) Label(ctx context.Context, name string, closed bool) error {
	ctx, cancel := context.WithTimeout(ctx, labelTimeout)
	defer cancel()
	var written bool
	var err error
	for range labelAttempts {
		if written, err = n.try(ctx, name, closed); !apierrors.IsConflict(err) {
			break
		}
	}
	switch {
	case err == nil && written:
		select {
		case <-n.Clock.After(labelNoticed):
		case <-ctx.Done():
		}
		return nil
	case err == nil:
		return nil
	case errors.Is(err, cluster.ErrCrowded):
		return apierrors.NewTooManyRequests(err.Error(), 1)
	}
	return apierrors.NewServiceUnavailable(fmt.Sprintf(
		"label namespace %s with %s, without which no request about its pods is judged: %v; remedy: try again", name, policyv1beta1.LabelBudgets, err))
}

// try reads the namespace once, and writes it if the label is not right. The write fails with
// a conflict when the namespace has changed in between.
func (n *Namespaces) try(ctx context.Context, name string, closed bool) (written bool, err error) {
	var read corev1.Namespace
	if err := n.Live.Get(ctx, client.ObjectKey{Name: name}, &read); err != nil {
		return false, fmt.Errorf("get namespace: %w", err)
	}
	after := read.DeepCopy() // other requests may share what was read
	if !mark(after, closed) {
		return false, nil
	}
	patch := client.MergeFromWithOptions(&read, client.MergeFromWithOptimisticLock{})
	if err := n.Client.Patch(ctx, after, patch, client.FieldOwner(policyv1beta1.FieldManagerBudgets)); err != nil {
		return false, fmt.Errorf("patch namespace: %w", err)
	}
	return true, nil
}

// mark sets the label of a namespace, and ends the removal of the label where one has begun.
// It tells whether that changes the namespace.
func mark(ns *corev1.Namespace, closed bool) bool {
	value := policyv1beta1.LabelBudgetsOpen
	if closed || ns.Labels[policyv1beta1.LabelBudgets] == policyv1beta1.LabelBudgetsClosed {
		value = policyv1beta1.LabelBudgetsClosed
	}
	_, idle := ns.Annotations[policyv1beta1.AnnotationIdleSince]
	if ns.Labels[policyv1beta1.LabelBudgets] == value && !idle {
		return false
	}
	if ns.Labels == nil {
		ns.Labels = map[string]string{}
	}
	ns.Labels[policyv1beta1.LabelBudgets] = value
	delete(ns.Annotations, policyv1beta1.AnnotationIdleSince)
	return true
}
