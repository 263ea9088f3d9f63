package agent

import (
	"context"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/agent/show"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// lookAgain is the shortest time after which the agent asks again for a kind that the API server does not serve, or that
// the agent may not read. The longest is twice as long.
const lookAgain = 2 * time.Minute

// watchNodeNetwork makes the cache of the NodeNetwork. Without its CRD, or the right to read it, the cache is empty.
func (v *clusterView) watchNodeNetwork(client *show.Client, c Config) {
	named := fields.OneTermEqualSelector(metav1.ObjectNameField, v1alpha1.NodeNetworkName)
	of := optional(toolscache.NewListWatchFromClient(client.Limpet, "nodenetworks", "", named), c.Clock)
	v.nets = toolscache.NewSharedIndexInformer(newSpread(c, 0, c.Pace.Reconnect).listWatch(of), &v1alpha1.NodeNetwork{}, 0, nil)
}

// nodeNetwork returns the NodeNetwork in the cache.
func (v *clusterView) nodeNetwork() (plan.NodeNetwork, bool) {
	for _, o := range stored[v1alpha1.NodeNetwork](v.nets) {
		if o.Name == v1alpha1.NodeNetworkName {
			return plan.NodeNetwork{Spec: o.Spec, Generation: o.Generation}, true
		}
	}
	return plan.NodeNetwork{}, false
}

// optional returns requests for a kind of which there is nothing while it is not served. A watch stays open then and
// tells nothing for some minutes, so that thousands of agents do not ask all the time.
func optional(of *toolscache.ListWatch, c clock.WithTicker) *toolscache.ListWatch {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := of.ListWithContext(ctx, o)
			if missing(err) {
				return &v1alpha1.NodeNetworkList{ListMeta: metav1.ListMeta{ResourceVersion: "0"}}, nil
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := of.WatchWithContext(ctx, o)
			switch {
			case !missing(err):
				return w, err
			case o.SendInitialEvents != nil: // the cache lists instead, and learns that there is nothing
				return nil, apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("NodeNetwork").GroupKind(), "", nil)
			}
			return newSilence(ctx, c, lookAgain+time.Duration(rand.Float64()*float64(lookAgain))), nil
		},
	}
}

// missing reports whether the API server does not serve a kind, or not to this agent.
func missing(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) }

// silence is a watch that tells nothing and ends after a time.
type silence struct {
	stop   context.CancelFunc
	events chan watch.Event
}

func newSilence(ctx context.Context, c clock.WithTicker, lasts time.Duration) *silence {
	ctx, stop := context.WithCancel(ctx)
	s := &silence{stop: stop, events: make(chan watch.Event)}
	timer := c.NewTimer(lasts)
	go func() {
		defer close(s.events)
		defer timer.Stop()
		defer stop()
		select {
		case <-ctx.Done():
		case <-timer.C():
		}
	}()
	return s
}

// Stop ends the watch.
func (s *silence) Stop() { s.stop() }

// ResultChan is closed when the watch ends.
func (s *silence) ResultChan() <-chan watch.Event { return s.events }
