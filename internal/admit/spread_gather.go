package admit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/spread"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// gather finds the spread that covers the pod, and where the pin sends the pod.
func (p *placing) gather(ctx context.Context) (found bool, err error) {
	p.chain, err = workload.ChainOver(p.facts.Pod, p.Workloads.Intermediate, func(o workload.Owner) (metav1.Object, error) { return p.lookup(ctx, o) })
	if err != nil {
		return false, err
	}
	if err := p.find(ctx); err != nil || p.object == nil {
		return false, err
	}
	p.home.Place = p.facts.Place
	if p.facts.Node != "" {
		if p.home.Node, err = cluster.Node(ctx, p.Cached, p.facts.Node); err == nil {
			p.home.Room, err = p.room(ctx, p.facts.Pod.Name, p.home.Node)
		}
	}
	return true, err
}

// room reports whether the recorded node of a pod has room for it, where that matters: in a spread that
// skips subsets. The scheduler may know better. A pod that it refused there goes where it is sent.
func (p *placing) room(ctx context.Context, name string, node *corev1.Node) (bool, error) {
	if node == nil || p.object.Spec.ScheduleStrategy.Type != appsv1beta1.SpreadAdaptive {
		return false, nil
	}
	var before corev1.Pod
	key := client.ObjectKey{Namespace: p.object.Namespace, Name: name}
	err := p.Cached.Get(ctx, key, &before, client.UnsafeDisableDeepCopy)
	_, refused := spread.Refused(&before, time.Time{})
	if client.IgnoreNotFound(err) != nil || refused || p.Tally.Refused(key) {
		return false, client.IgnoreNotFound(err)
	}
	others, err := cluster.PodsOn(ctx, p.Cached, node.Name)
	return err == nil && fit.Shortage(node, p.facts.Pod, others) == "", err
}

// lookup reads a ReplicaSet, a Job or an object of a named kind between the pod and the workload
// that a user wrote. One that was just made is not in the cache yet.
func (p *placing) lookup(ctx context.Context, o workload.Owner) (metav1.Object, error) {
	if !o.Intermediate() {
		return p.Workloads.IntermediateObject(ctx, p.facts.Pod.Namespace, o, p.facts.Now)
	}
	object, err := cluster.Intermediate(ctx, p.Cached, p.facts.Pod.Namespace, o, client.UnsafeDisableDeepCopy)
	if object == nil && err == nil && !p.facts.DryRun {
		object, err = cluster.Intermediate(ctx, p.Live, p.facts.Pod.Namespace, o)
	}
	if object == nil || err != nil {
		return nil, err
	}
	if o.UID == p.owner.UID {
		p.nearest = object
	}
	return object, nil
}

// find finds the spread of the pod. Where the cache shows none, a spread may be too new for the
// cache, and the API server is asked. A dry run is answered from the cache alone.
func (p *placing) find(ctx context.Context) error {
	var cached []appsv1beta1.WorkloadSpread
	for _, owner := range p.chain {
		of, err := cluster.SpreadsOf(ctx, p.Cached, p.facts.Pod.Namespace, owner.Target)
		if err != nil {
			return err
		}
		cached = append(cached, of...)
	}
	if p.object = p.covering(ctx, cached); p.object != nil || p.facts.DryRun {
		return nil
	}
	live, err := p.newest(ctx)
	switch {
	case err != nil && p.closed:
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", errNewest, err)
	}
	p.object = p.covering(ctx, live)
	return nil
}

// errNewest is returned in an open namespace where the API server does not answer whether the pod
// has a spread that is too new for the cache. Most such pods have none.
var errNewest = errors.New("a new spread cannot be looked for")

const (
	// mostNamed is how many spreads may have targets of one name and different kinds.
	mostNamed = 8
	// longestName is the length of the longest name of a workload. Pods can name longer ones.
	longestName = 253
)

// newest reads the spreads of all owners of the pod past the cache, at the same time. Requests
// about the same owner share a read. Half of the time is left for the choice of the subset.
func (p *placing) newest(ctx context.Context) ([]appsv1beta1.WorkloadSpread, error) {
	reader := p.Live
	if p.proven {
		reader = p.LiveProven
	}
	ctx, cancel := context.WithTimeout(ctx, p.left(ctx)/2)
	defer cancel()
	found, errs := make([][]appsv1beta1.WorkloadSpread, len(p.chain)), make([]error, len(p.chain))
	var reads sync.WaitGroup
	for i, owner := range p.chain {
		if len(owner.Name) <= longestName {
			reads.Go(func() {
				found[i], errs[i] = cluster.LiveSpreadsOf(ctx, reader, p.Cached, p.facts.Pod.Namespace, owner.Target, client.Limit(mostNamed))
			})
		}
	}
	reads.Wait()
	return slices.Concat(found...), errors.Join(errs...)
}

// covering returns the spread of the pod; nil for none. Of several it is the one of the nearest
// owner, and then the first by name. A spread whose filter cannot be read covers no pod, and neither
// does a spread that is being deleted: a new one of the same target may exist.
func (p *placing) covering(ctx context.Context, candidates []appsv1beta1.WorkloadSpread) *appsv1beta1.WorkloadSpread {
	slices.SortStableFunc(candidates, func(a, b appsv1beta1.WorkloadSpread) int { return strings.Compare(a.Name, b.Name) })
	for i := range p.chain {
		for j := range candidates {
			if candidates[j].DeletionTimestamp != nil {
				continue
			}
			covers, err := spread.Covers(&candidates[j], p.facts.Pod.Labels, p.chain[i:i+1])
			if err != nil {
				log.FromContext(ctx).Error(err, "Spread is left out")
			}
			if covers {
				return &candidates[j]
			}
		}
	}
	return nil
}

// rules returns what the spread says for the present size of the workload.
func (p *placing) rules(ctx context.Context) (spread.Spread, error) {
	size := int32(spread.UnknownSize)
	if slices.ContainsFunc(p.object.Spec.Subsets, func(s appsv1beta1.WorkloadSpreadSubset) bool {
		return s.MaxReplicas != nil && s.MaxReplicas.Type == intstr.String
	}) {
		var unknown string
		var err error
		if size, unknown, err = p.size(ctx); err != nil {
			return spread.Spread{}, err
		}
		if unknown != "" {
			return spread.Spread{}, fmt.Errorf("%w: %s", spread.ErrSize, unknown)
		}
	}
	return spread.Of(p.object, size)
}

// size returns how many pods the target wants, or why that is not known.
func (p *placing) size(ctx context.Context) (size int32, unknown string, err error) {
	readers := []client.Reader{p.Cached}
	if !p.facts.DryRun {
		readers = append(readers, p.Live)
	}
	return p.Sizes.SizeOf(ctx, p.object, p.Clock.Now(), readers...)
}

// wants returns how many pods the pod's controller wants, as the cache shows now.
func (p *placing) wants(ctx context.Context) int32 {
	if p.nearest == nil {
		return spread.UnknownWants
	}
	now, err := cluster.Intermediate(ctx, p.Cached, p.facts.Pod.Namespace, p.owner, client.UnsafeDisableDeepCopy)
	if err != nil || now == nil {
		now = p.nearest
	}
	return spread.Wants(now)
}

// errUncounted is why a pod cannot be given a subset.
var errUncounted = errors.New("this replica has not counted the pods yet")
