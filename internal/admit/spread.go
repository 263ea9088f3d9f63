package admit

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fair"
	"github.com/limpet-io/limpet/internal/platform/mark"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/spread"
	"github.com/limpet-io/limpet/internal/spread/placement"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Spread is the planner that gives pods their subset.
type Spread struct {
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
	Metrics *SpreadMetrics

	adopted fair.Memory[adoptionKey, adoption]
	told    fair.Rests[string] // namespaces that were told of a pod without a subset
}

var _ Planner = (*Spread)(nil)

// Name is the planner's name.
func (s *Spread) Name() string { return "spread" }

// SpreadNeeds is what the planner reads from the caches, beside what the planner of pins and the
// guards of budgets read.
func SpreadNeeds() cluster.Needs {
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
func (s *Spread) Plan(ctx context.Context, facts Facts) (Plan, error) {
	owner, owned := workload.ControllerOf(facts.Pod)
	if !owned || !spreadable(owner) || workload.IsLeftOut(facts.Pod.Namespace) {
		return Plan{}, nil
	}
	label, proven, err := s.label(ctx, facts)
	p := &placing{Spread: s, facts: facts, owner: owner, closed: label == mark.Closed, proven: proven}
	switch {
	case err != nil:
		return p.planUnread(err)
	case label == "":
		return Plan{}, nil
	}
	found, err := p.gather(ctx)
	switch {
	case err != nil:
		return p.planUnread(err)
	case !found:
		return Plan{Patch: podpatch.Patch{Drop: placedAnnotations}}, nil
	}
	return Plan{Commit: p.commit}, nil
}

// label returns the label of the pod's namespace, and whether the cache shows it. A label that
// the cache does not show yet counts as closed: the pod is refused for a moment rather than
// created without its subset.
func (s *Spread) label(ctx context.Context, facts Facts) (label string, proven bool, err error) {
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
	*Spread
	facts  Facts
	owner  workload.Owner // the pod's controller
	closed bool           // the pod must not be created without its subset
	proven bool           // the cache shows the label of the namespace

	chain   []workload.Owner
	nearest client.Object // the ReplicaSet or Job that controls the pod; nil for other kinds
	object  *appsv1beta1.WorkloadSpread
	home    spread.Home
	before  map[string]bool // keys of the entries that were in the book when the request came
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
