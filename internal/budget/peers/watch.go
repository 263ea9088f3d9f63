package peers

import (
	"context"
	"fmt"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// lookAgain is how often the kubeconfig is looked at.
const lookAgain = 5 * time.Second

// Start watches the budgets of all other clusters until the context ends. Only the leader runs it.
func (p *Peers) Start(ctx context.Context) error {
	p.mu.Lock()
	p.watching, p.written = ctx, time.Time{} // connections that exist do not watch
	p.mu.Unlock()
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		p.mu.Lock()
		_ = p.load() //nolint:contextcheck // it uses that of Start; a decision that asks for a peer says why it cannot be read
		p.mu.Unlock()
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// watch begins to watch a cluster.
func (p *Peers) watch(c *connection, config *rest.Config) error {
	budgets, err := cache.New(config, cache.Options{
		Scheme: p.Scheme, Mapper: kinds(),
		ByObject: map[client.Object]cache.ByObject{&limpetv1alpha1.DistributedPodDisruptionBudget{}: {Transform: short}, &policyv1.PodDisruptionBudget{}: {Transform: shortPlain}},
	})
	if err != nil {
		return fmt.Errorf("cannot be watched: %w", err)
	}
	informer, err := budgets.GetInformer(p.watching, &limpetv1alpha1.DistributedPodDisruptionBudget{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("cannot be watched: %w", err)
	}
	ctx, stop := context.WithCancel(p.watching)
	c.cached, c.synced, c.stop, c.ends = budgets, informer.HasSynced, stop, ctx
	if err := p.tell(ctx, informer); err != nil {
		stop()
		return fmt.Errorf("cannot be watched: %w", err)
	}
	go func() {
		if err := budgets.Start(ctx); err != nil {
			log.FromContext(ctx).Error(err, "Watch of a peer has ended")
		}
	}()
	return nil
}

// watchPlain begins to watch the PodDisruptionBudgets of a cluster, where its controller may read them. It reports whether
// they are known.
func (p *Peers) watchPlain(c *connection) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.plain == nil {
		informer, err := c.cached.GetInformer(c.ends, &policyv1.PodDisruptionBudget{}, cache.BlockUntilSynced(false))
		if err != nil || p.tell(c.ends, informer) != nil {
			return false
		}
		c.plain = informer.HasSynced
	}
	return c.plain()
}

// shortPlain keeps of a PodDisruptionBudget what Plain reads.
func shortPlain(o any) (any, error) {
	if from, ok := o.(*policyv1.PodDisruptionBudget); ok {
		to := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{
			Namespace: from.Namespace, Name: from.Name, UID: from.UID, ResourceVersion: from.ResourceVersion, Generation: from.Generation,
		}}
		KeepPlain(from, to)
		return to, nil
	}
	return o, nil
}

// short leaves out what no reader reads: a cluster may have thousands of budgets without federation.
func short(o any) (any, error) {
	if b, ok := o.(*limpetv1alpha1.DistributedPodDisruptionBudget); ok {
		b.ManagedFields, b.Spec.Selector, b.Spec.Groups, b.Status.Groups, b.Status.FederatedStatuses = nil, nil, nil, nil, nil
		if len(b.Spec.Federation) == 0 {
			b.Labels, b.Annotations, b.Status = nil, nil, limpetv1alpha1.DistributedPodDisruptionBudgetStatus{}
		}
	}
	return o, nil
}

// tell sends each change of a budget of a cluster to Events.
func (p *Peers) tell(ctx context.Context, informer cache.Informer) error {
	send := func(o any) {
		if last, unknown := o.(toolscache.DeletedFinalStateUnknown); unknown {
			o = last.Obj
		}
		if pdb, plain := o.(*policyv1.PodDisruptionBudget); plain {
			o = Plain(pdb)
		}
		if b, ok := o.(*limpetv1alpha1.DistributedPodDisruptionBudget); ok && len(b.Spec.Federation) > 0 {
			select {
			case p.Events <- event.GenericEvent{Object: b}:
			case <-ctx.Done():
			}
		}
	}
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: send, UpdateFunc: func(_, o any) { send(o) }, DeleteFunc: send,
	})
	return err //nolint:wrapcheck // the caller does
}
