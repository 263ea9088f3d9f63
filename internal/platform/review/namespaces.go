package review

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fair"
	"github.com/limpet-io/limpet/internal/platform/mark"
	"github.com/limpet-io/limpet/internal/platform/workload"
)

const (
	// labelTimeout leaves the API server a second of the time that it waits for the webhook.
	labelTimeout = 4 * time.Second
	// labelAttempts bounds the attempts against other writers of the Namespace.
	labelAttempts = 5
	// labelNoticed is the time that API servers get to notice a new label by their watches,
	// before the first object is stored.
	labelNoticed = 200 * time.Millisecond
)

// Namespaces sets the label by which the API server sends requests about pods to the webhooks of a feature.
type Namespaces struct {
	// Live reads past the cache: the label may have been removed a moment ago.
	Live *cluster.LiveReader
	// Client writes.
	Client client.Client
	Clock  clock.Clock
	// Timeout is how long one call of Label may take.
	Timeout time.Duration
}

// NewNamespaces returns Namespaces for requests of the API server.
func NewNamespaces(live *cluster.LiveReader, c client.Client, now clock.Clock) *Namespaces {
	return &Namespaces{Live: live, Client: c, Clock: now, Timeout: labelTimeout}
}

// LabelOf labels the namespace of an object, unless the request is a dry run or the webhooks leave the
// namespace out.
func (n *Namespaces) LabelOf(ctx context.Context, m mark.Mark, kind schema.GroupVersionKind, o client.Object) error {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return fmt.Errorf("judge %s %s: %w", kind.Kind, o.GetName(), err)
	}
	if request.DryRun != nil && *request.DryRun || workload.IsLeftOut(o.GetNamespace()) {
		return nil
	}
	return n.Label(ctx, m, o.GetNamespace())
}

// Label makes sure that a namespace has the label of a feature. The label is never changed from
// closed to open here, and never to closed: nothing shows yet that the object exists, and a stranger
// could have sent the request. The leader closes the namespace when the API has the object. The object
// must not be stored when this fails: the API server would not send its pods.
func (n *Namespaces) Label(ctx context.Context, m mark.Mark, name string) error {
	ctx, cancel := context.WithTimeout(ctx, n.Timeout)
	defer cancel()
	var written bool
	var err error
	for range labelAttempts {
		if written, err = n.try(ctx, m, name); !apierrors.IsConflict(err) {
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
	case errors.Is(err, fair.ErrCrowded):
		return Crowded(err)
	}
	return apierrors.NewServiceUnavailable(fmt.Sprintf(
		"label namespace %s with %s, without which %s: %v; remedy: try again", name, m.Label, m.Without, err))
}

// try reads the namespace once, and writes it if the label is not right. The write fails with
// a conflict when the namespace has changed in between.
func (n *Namespaces) try(ctx context.Context, m mark.Mark, name string) (written bool, err error) {
	var read corev1.Namespace
	if err := n.Live.Get(ctx, client.ObjectKey{Name: name}, &read); err != nil {
		return false, fmt.Errorf("get namespace: %w", err)
	}
	after := read.DeepCopy() // other requests may share what was read
	if !m.Set(after) {
		return false, nil
	}
	patch := client.MergeFromWithOptions(&read, client.MergeFromWithOptimisticLock{})
	if err := n.Client.Patch(ctx, after, patch, client.FieldOwner(m.Manager)); err != nil {
		return false, fmt.Errorf("patch namespace: %w", err)
	}
	return true, nil
}
