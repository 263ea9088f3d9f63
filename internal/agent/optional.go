package agent

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
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

// untold is how long an agent waits for an API server that does not tell whether there is a NodeNetwork.
const untold = time.Minute

// watchNodeNetwork makes the cache of the NodeNetwork. Without its CRD, or the right to read it, the cache is empty.
func (v *clusterView) watchNodeNetwork(client *show.Client, c Config) {
	named := fields.OneTermEqualSelector(metav1.ObjectNameField, v1alpha1.NodeNetworkName)
	all := toolscache.NewListWatchFromClient(client.Limpet, "nodenetworks", "", named)
	v.nets = newOptional(client, c, all, &v1alpha1.NodeNetwork{}, &v1alpha1.NodeNetworkList{ListMeta: none}, c.Pace.Reconnect)
}

// watchLoans makes the cache of all loans, in the same way. A loan moves routes, so its broken watch is opened again as soon
// as that of nodes.
func (v *clusterView) watchLoans(client *show.Client, c Config) error {
	all := toolscache.NewListWatchFromClient(client.Limpet, "borrowedaddresses", "", fields.Everything())
	v.loans = newOptional(client, c, all, &v1alpha1.BorrowedAddress{}, &v1alpha1.BorrowedAddressList{ListMeta: none}, c.Pace.Reconnect/nodesSooner)
	return v.loans.SetTransform(stripLoan) //nolint:wrapcheck // the caller wraps it
}

// none is the version of a list of nothing.
var none = metav1.ListMeta{ResourceVersion: "0"}

func newOptional(client *show.Client, c Config, all *toolscache.ListWatch, kind, empty runtime.Object, reconnect time.Duration) toolscache.SharedIndexInformer {
	of := (&optional{clock: c.Clock, ready: client.Ready, empty: empty}).listWatch(all)
	return toolscache.NewSharedIndexInformer(newStagger(c, 0, reconnect).listWatch(of), kind, 0, nil)
}

// stripLoan drops what the agent does not read of a loan.
func stripLoan(o any) (any, error) {
	if l, ok := o.(*v1alpha1.BorrowedAddress); ok {
		l.ManagedFields, l.Annotations, l.Labels, l.OwnerReferences, l.Status.Since = nil, nil, nil, nil, nil
	}
	return o, nil
}

// allLoans returns the loans in the cache, which must not be changed. They are not told while the API server has not said
// whether there are any.
func (v *clusterView) allLoans() (all []*v1alpha1.BorrowedAddress, told bool) {
	told = v.loans.HasSynced() // asked first, as for the NodeNetwork
	for _, o := range v.loans.GetStore().List() {
		if l, ok := o.(*v1alpha1.BorrowedAddress); ok {
			all = append(all, l)
		}
	}
	return all, told
}

// nodeNetwork returns the NodeNetwork in the cache. It is not told while the API server has not said whether there is one.
func (v *clusterView) nodeNetwork() (n plan.NodeNetwork, there, told bool) {
	told = v.nets.HasSynced() // asked first: what is stored later was told as well
	for _, o := range stored[v1alpha1.NodeNetwork](v.nets) {
		if o.Name == v1alpha1.NodeNetworkName {
			return plan.NodeNetwork{Spec: o.Spec, Generation: o.Generation}, true, told
		}
	}
	return plan.NodeNetwork{}, false, told
}

// followServices keeps the ranges of services. They change when an administrator adds one.
func (v *clusterView) followServices(ctx context.Context, client *show.Client, c clock.Clock) {
	for again := lookAgain; ctx.Err() == nil; {
		if ranges, err := client.ServiceRanges(ctx); err == nil {
			v.services.Store(&ranges)
			v.notify()
			again = time.Hour
		}
		select {
		case <-c.After(again):
		case <-ctx.Done():
		}
	}
}

// serviceRanges returns the ranges of services, as far as they are known.
func (v *clusterView) serviceRanges() []netip.Prefix {
	if known := v.services.Load(); known != nil {
		return slices.Clone(*known)
	}
	return nil
}

// optional is a kind of which there is nothing while it is not served, or not to this agent.
type optional struct {
	clock clock.WithTicker
	// ready reports whether the API server that answered is ready.
	ready func(context.Context) bool
	empty runtime.Object // a list of nothing

	mu      sync.Mutex
	refused time.Time // when the first of the last refusals came; zero after another answer
}

// listWatch returns requests for the kind. A watch of nothing stays open and tells nothing for some minutes, so that
// thousands of agents do not ask all the time.
func (k *optional) listWatch(of *toolscache.ListWatch) *toolscache.ListWatch {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			list, err := of.ListWithContext(ctx, o)
			if k.missing(ctx, err) {
				return k.empty.DeepCopyObject(), nil
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			w, err := of.WatchWithContext(ctx, o)
			switch gone := k.missing(ctx, err); {
			case o.SendInitialEvents != nil && (gone || apierrors.IsForbidden(err)): // the cache lists instead, and learns why
				return nil, apierrors.NewInvalid(v1alpha1.GroupVersion.WithKind("").GroupKind(), "", nil)
			case gone:
				return newSilence(ctx, k.clock, lookAgain+time.Duration(rand.Float64()*float64(lookAgain))), nil
			}
			return w, err
		},
	}
}

// missing reports whether the API server does not serve a kind, or not to this agent. An API server that starts refuses
// what it will allow when it knows all roles, so a refusal counts when the server is ready, or after a while. A server
// that does not know all kinds yet answers 503 and not 404.
func (k *optional) missing(ctx context.Context, err error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !apierrors.IsForbidden(err) {
		k.refused = time.Time{}
		return apierrors.IsNotFound(err)
	}
	if k.refused.IsZero() {
		k.refused = k.clock.Now()
	}
	return k.clock.Since(k.refused) >= untold || k.ready(ctx)
}

// newSilence returns a watch that tells nothing and ends after a time.
func newSilence(ctx context.Context, c clock.WithTicker, lasts time.Duration) watch.Interface {
	events := make(chan watch.Event)
	w, timer := watch.NewProxyWatcher(events), c.NewTimer(lasts)
	go func() {
		defer close(events)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-w.StopChan():
		case <-timer.C():
		}
	}()
	return w
}
