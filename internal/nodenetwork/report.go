package nodenetwork

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// Period is the time between two looks, and so between two writes of the status.
const Period = 15 * time.Second

// Reporter writes the status of the NodeNetwork. It reads the object by name and watches nothing: where users have not
// applied deploy/node-network, there is no such kind. The Reporter runs on the leader.
type Reporter struct {
	Client client.Client
	Live   client.Reader
	Clock  clock.Clock
}

// SetupWithManager runs the reporter on every leader.
func (r *Reporter) SetupWithManager(mgr ctrl.Manager) error { return mgr.Add(r) }

// Start reports until the context ends. The same error in a row is logged once.
func (r *Reporter) Start(ctx context.Context) error {
	last := ""
	for {
		text := ""
		if err := r.Report(ctx); err != nil && ctx.Err() == nil {
			if text = err.Error(); text != last {
				log.FromContext(ctx).Error(err, "The status of the NodeNetwork is old")
			}
		}
		last = text
		select {
		case <-r.Clock.After(Period):
		case <-ctx.Done():
			return nil
		}
	}
}

// Report writes the status if it has changed.
func (r *Reporter) Report(ctx context.Context) error {
	o := &v1alpha1.NodeNetwork{}
	err := r.Live.Get(ctx, client.ObjectKey{Name: v1alpha1.NodeNetworkName}, o)
	if cluster.NotServed(err) || apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("get NodeNetwork: %w", err)
	}
	pools, err := cluster.Pools(ctx, r.Client)
	if err != nil {
		return err
	}
	joined := func(node string) bool {
		return !apierrors.IsNotFound(r.Client.Get(ctx, client.ObjectKey{Name: node}, &corev1.Node{}))
	}
	next := o.DeepCopy()
	next.Status = Summarize(Input{Object: *o, Pools: pools, Joined: joined, Now: metav1.NewTime(r.Clock.Now())})
	if apiequality.Semantic.DeepEqual(o.Status, next.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, next, client.MergeFrom(o)); err != nil {
		return fmt.Errorf("write the status of the NodeNetwork: %w", err)
	}
	return nil
}
