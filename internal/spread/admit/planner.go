// Package admit chooses the subset of a pod that is being created. Planner finds the spread of the
// pod, then choice decides by what is counted and by the book, or ordinal by the name of the pod;
// commit says what the subset adds.
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
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/creation"
	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fair"
	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/platform/mark"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/spread"
	"github.com/limpet-io/limpet/internal/spread/placement"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Planner is the planner that gives pods their subset.
type Planner struct {
	// Cached reads spreads, owners, pods, nodes and namespaces.
	Cached client.Reader
	// Live reads past the cache what users name, and LiveProven the spreads of namespaces whose
	// label the cache shows.
	Live, LiveProven client.Reader
	// Workloads reads the StatefulSets of Kubernetes and of OpenKruise.
	Workloads *workloads.Reader
	// Sizes reads how many pods workloads of other kinds want.
	Sizes *workloads.Scales
	Tally *placement.Tally
	Books *books.Books
	Clock clock.Clock
	// Events are about WorkloadSpreads.
	Events  events.EventRecorder
	Metrics *Metrics
	// Recorded returns the nodes that are recorded for pods of an owner, by the names of the pods.
	Recorded func(ctx context.Context, namespace string, owner workload.Target) (map[string]string, error)

	adopted fair.Memory[adoptionKey, adoption]
	told    fair.Rests[string] // namespaces in which a pod without a subset was reported
}

var _ creation.Planner = (*Planner)(nil)

// Name is the planner's name.
func (s *Planner) Name() string { return "spread" }

// Needs is what the planner reads from the caches, beside what the planner of pins and the
// guards of budgets read.
func Needs() cluster.Needs {
	all := cluster.Needs{
		Objects: []cluster.Need{
			cluster.Of(cluster.OwnAnnotations[*appsv1beta1.WorkloadSpread], spreadRules),
			cluster.Of(cluster.Labels[*corev1.Namespace], cluster.OwnAnnotations[*corev1.Namespace]),
			cluster.Of(cluster.ReplicaSetSize),
			cluster.Of(cluster.JobSize),
			cluster.Of(cluster.DeploymentSize),
			cluster.Of(cluster.StatefulSetSize),
		},
		Indexes: []cluster.Index{cluster.SpreadsByTarget(), cluster.PodsByTarget()},
	}
	for _, more := range []cluster.Needs{cluster.OwnerChain(), placement.Needs(), books.Needs(), workloads.BetweenNeeds()} {
		all.Objects, all.Indexes = append(all.Objects, more.Objects...), append(all.Indexes, more.Indexes...)
	}
	return all
}

// spreadRules keeps what a spread says, and which of its subsets are skipped.
func spreadRules(from, to *appsv1beta1.WorkloadSpread) {
	to.Spec = from.Spec
	to.Status.SubsetStatuses = nil
	for _, s := range from.Status.SubsetStatuses {
		to.Status.SubsetStatuses = append(to.Status.SubsetStatuses, appsv1beta1.WorkloadSpreadSubsetStatus{Name: s.Name, Conditions: s.Conditions})
	}
}

// placedAnnotations are the annotations that only this planner may set.
var placedAnnotations = []string{appsv1beta1.AnnotationMatchedSpread, appsv1beta1.AnnotationHomeSubset}

// Plan finds the spread of a pod. The subset is chosen when all planners have planned.
//
// Templates can be copied from running pods, so that a pod without a spread loses the annotation
// of another pod.
func (s *Planner) Plan(ctx context.Context, facts creation.Facts) (creation.Plan, error) {
	owner, owned := workload.ControllerOf(facts.Pod)
	if !owned || !spread.Spreadable(owner) || workload.IsLeftOut(facts.Pod.Namespace) {
		return creation.Plan{}, nil
	}
	label, proven, err := s.label(ctx, facts)
	p := &placing{Planner: s, facts: facts, owner: owner, closed: label == mark.Closed, proven: proven}
	switch {
	case err != nil:
		return p.planUnread(err)
	case label == "":
		return creation.Plan{}, nil
	}
	found, err := p.gather(ctx)
	switch {
	case err != nil:
		return p.planUnread(err)
	case !found:
		return creation.Plan{Patch: podpatch.Patch{Drop: placedAnnotations}}, nil
	}
	return creation.Plan{Commit: p.commit}, nil
}

// label returns the label of the pod's namespace, and whether the cache shows it. A label that
// the cache does not show yet counts as closed: the pod is refused for a moment rather than
// created without its subset.
func (s *Planner) label(ctx context.Context, facts creation.Facts) (label string, proven bool, err error) {
	var ns corev1.Namespace
	err = s.Cached.Get(ctx, client.ObjectKey{Name: facts.Pod.Namespace}, &ns, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return "", false, fmt.Errorf("get namespace %s: %w", facts.Pod.Namespace, err)
	}
	if label = mark.Spreads.Of(&ns); label == "" && facts.Labelled {
		return mark.Closed, false, nil
	}
	return label, label != "", nil
}

// placing is the creation of one pod that may have a subset.
type placing struct {
	*Planner
	facts  creation.Facts
	owner  workload.Owner // the pod's controller
	closed bool           // the pod must not be created without its subset
	proven bool           // the cache shows the label of the namespace

	chain   []workload.Owner
	nearest client.Object // the ReplicaSet or Job that controls the pod; nil for other kinds
	object  *appsv1beta1.WorkloadSpread
	home    spread.Home
	// fallback is the recorded node of a pod that fell back and may come home: no home, but no node of another subset
	// keeps the pin.
	fallback *corev1.Node
	before   map[string]bool // keys of the entries that were in the book when the request came
}

// key is the key of the pod's entry: the UID of the request, or the name where it is given.
func (p *placing) key() string {
	if p.facts.Pod.Name != "" {
		return placement.NameKey(p.facts.Pod.Name)
	}
	return string(p.facts.UID)
}

// together reports whether the pods of several owners share the maxima. The revisions of a Deployment
// do not, and a target that controls its pods itself is one owner. Only pods below other kinds are
// counted by the name of the spread: pods of an earlier spread of this name may have it, too.
func (p *placing) together() bool {
	return p.owner.Kind != "ReplicaSet" && p.owner.Target != workload.TargetOf(p.object.Spec.TargetReference)
}

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
	if p.facts.Node == "" {
		return true, nil
	}
	if p.home.Node, err = cluster.Node(ctx, p.Cached, p.facts.Node); err != nil {
		return true, err
	}
	away, err := p.fellBack(ctx, p.facts.Pod.Name)
	if away && len(p.home.Place) == 0 {
		p.home.Node, p.fallback = nil, p.home.Node
	}
	if err == nil {
		p.home.Room, err = p.room(ctx, p.facts.Pod.Name, p.home.Node)
	}
	return true, err
}

// fellBack reports whether the pod of a name that was there before was not in its own subset, and may come home. Its record
// was made where it was, and must not keep it there.
func (p *placing) fellBack(ctx context.Context, name string) (bool, error) {
	strategy := p.object.Spec.ScheduleStrategy
	if strategy.Type != appsv1beta1.SpreadAdaptive || strategy.Adaptive == nil || strategy.Adaptive.ReturnPolicy != appsv1beta1.ReturnWhenRecovered {
		return false, nil
	}
	var before corev1.Pod
	key := client.ObjectKey{Namespace: p.object.Namespace, Name: name}
	err := p.Cached.Get(ctx, key, &before, client.UnsafeDisableDeepCopy)
	return before.Annotations[appsv1beta1.AnnotationHomeSubset] != "" || p.Tally.FellBack(key), client.IgnoreNotFound(err)
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

// size returns how many pods the target wants, or why that is not known. A number from before the request may be that of a
// workload that was not there yet.
func (p *placing) size(ctx context.Context) (size int32, unknown string, err error) {
	readers := []client.Reader{p.Cached}
	if !p.facts.DryRun {
		readers = append(readers, p.Live)
	}
	return p.Sizes.Since(p.facts.Now).SizeOf(ctx, p.object, p.Clock.Now(), readers...)
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
