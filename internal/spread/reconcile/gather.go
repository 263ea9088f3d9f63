package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/spread"
	"github.com/limpet-io/limpet/internal/spread/placement"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// situation is what is known about one spread.
type situation struct {
	object *appsv1beta1.WorkloadSpread
	says   spread.Spread
	// size is how many pods the target wants.
	size int32
	// unknown says why the size is not known; "" when it is.
	unknown string
	// kindProblem is what hinders spreads of the target's kind; "" for nothing.
	kindProblem string
	// problem is why a patch does not apply; "" for none.
	problem string
	// surges tells that a rollout deletes no pod before its successor is Ready, and blocked is a subset
	// without room for that; "" for none.
	surges  bool
	blocked string
	pods    []*member
	// outside is how many pods without a subset run on nodes of no subset.
	outside int
	// nearer counts the pods of other spreads, whose targets are nearer to them, by spread.
	nearer map[string]int
	// entries are creations on their way, whose pods are not seen.
	entries []spread.Entry
}

// member is an active pod of the spread.
type member struct {
	*corev1.Pod
	subset string // "" for none
	// revision is the name of the pod's revision, and owner the UID of its controller.
	revision string
	owner    types.UID
}

// gather collects the facts about a spread.
func (r *Reconciler) gather(ctx context.Context, ws *appsv1beta1.WorkloadSpread) (*situation, error) {
	s := &situation{object: ws, kindProblem: r.Kinds.Registry.SpreadProblem(workload.TargetOf(ws.Spec.TargetReference).GroupKind())}
	var err error
	if s.size, s.unknown, err = r.Sizes.SizeOf(ctx, ws, r.Clock.Now(), r.Client); err != nil {
		return nil, err
	}
	size := s.size
	if s.unknown != "" {
		size = spread.UnknownSize
	}
	if s.says, err = spread.Of(ws, size); errors.Is(err, spread.ErrSize) {
		return s, nil // the status says so
	} else if err != nil {
		return nil, err
	}
	if err := r.addPods(ctx, s); err != nil {
		return nil, err
	}
	return s, r.addEntries(ctx, s)
}

// addPods adds the active pods of the target that the spread covers.
func (r *Reconciler) addPods(ctx context.Context, s *situation) error {
	target := workload.TargetOf(s.object.Spec.TargetReference)
	pods, err := r.podsOf(ctx, s.object.Namespace, target)
	if err != nil {
		return err
	}
	for i := range pods {
		pod := &pods[i]
		owner, _ := workload.ControllerOf(pod)
		covered, err := spread.Covers(s.object, pod.Labels, []workload.Owner{owner, {Target: target}})
		if err != nil {
			return err
		}
		if !covered || !workload.Alive(pod) {
			continue
		}
		if name := r.nearer(ctx, s.object, pod); name != "" {
			if s.nearer == nil {
				s.nearer = map[string]int{}
			}
			s.nearer[name]++
			continue
		}
		m := &member{Pod: pod, owner: owner.UID, revision: appsv1beta1.VersionIgnored}
		switch hash := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; {
		case owner.GroupKind() != replicaSets:
		case hash != "":
			m.revision = hash
		case owner.Target != target: // such as that of a Rollout; the webhook counts each by itself, too
			m.revision = owner.Name
		}
		if match, err := matchOf(pod); err == nil && match.Name == s.object.Name {
			m.subset = match.Subset
		}
		s.pods = append(s.pods, m)
	}
	return nil
}

func matchOf(pod *corev1.Pod) (appsv1beta1.Match, error) {
	return appsv1beta1.ParseMatch(pod.Annotations[appsv1beta1.AnnotationMatchedSpread])
}

// nearer names the spread that a pod has by its annotation, if the target of that spread is nearer
// to the pod than the target of this one, or is the same and its name comes first; "" for none. The
// webhook chooses likewise, so that two spreads never give one pod to each other in turn.
func (r *Reconciler) nearer(ctx context.Context, ws *appsv1beta1.WorkloadSpread, pod *corev1.Pod) string {
	match, err := matchOf(pod)
	if err != nil || match.Name == ws.Name {
		return ""
	}
	var named appsv1beta1.WorkloadSpread
	err = r.Client.Get(ctx, client.ObjectKey{Namespace: ws.Namespace, Name: match.Name}, &named, client.UnsafeDisableDeepCopy)
	if err != nil || named.DeletionTimestamp != nil {
		return ""
	}
	chain, err := cluster.ChainOf(ctx, r.Client, pod)
	if err != nil { // only a cache that is being stopped returns an error
		return ""
	}
	own, its := workload.TargetOf(ws.Spec.TargetReference), workload.TargetOf(named.Spec.TargetReference)
	covers, err := spread.Covers(&named, pod.Labels, chain)
	for _, owner := range chain {
		switch {
		case owner.Target == its && err == nil && covers && (own != its || named.Name < ws.Name):
			return named.Name
		case owner.Target == own:
			return ""
		}
	}
	// Both may stand above a further kind, which the cache does not show: the pod stays where it is.
	if len(chain) > 0 && slices.Contains(r.Kinds.Registry.SpreadKinds().Above(chain[len(chain)-1].GroupKind()), its.GroupKind()) {
		return named.Name
	}
	return ""
}

// podsOf returns the pods of a workload: those that it controls, directly or through ReplicaSets,
// Jobs, or objects of kinds that are named.
func (r *Reconciler) podsOf(ctx context.Context, namespace string, target workload.Target) ([]corev1.Pod, error) {
	owners, err := r.ownersUnder(ctx, namespace, target)
	if err != nil {
		return nil, err
	}
	between, err := r.Kinds.Registry.OwnersBetween(ctx, r.Client, namespace, target)
	if err != nil {
		return nil, err
	}
	for _, o := range between {
		owners = append(owners, o.GetUID())
	}
	var all []corev1.Pod
	if !target.Unstable() {
		if all, err = cluster.PodsOf(ctx, r.Client, namespace, target); err != nil {
			return nil, err
		}
	}
	for _, owner := range owners {
		pods, err := cluster.PodsOwnedBy(ctx, r.Client, namespace, owner)
		if err != nil {
			return nil, err
		}
		if len(all) == 0 {
			all = pods // without a copy of each
			continue
		}
		all = append(all, pods...)
	}
	return all, nil
}

// ownersUnder returns the ReplicaSets and Jobs that are the target, or that the target controls.
func (r *Reconciler) ownersUnder(ctx context.Context, namespace string, target workload.Target) (owners []types.UID, err error) {
	in := []client.ListOption{client.InNamespace(namespace), client.UnsafeDisableDeepCopy}
	var sets appsv1.ReplicaSetList
	if err := r.Client.List(ctx, &sets, in...); err != nil {
		return nil, fmt.Errorf("list ReplicaSets of %s: %w", target, err)
	}
	for i := range sets.Items {
		if o := &sets.Items[i]; under(o, replicaSets.Kind, target) {
			owners = append(owners, o.UID)
		}
	}
	var all batchv1.JobList
	if err := r.Client.List(ctx, &all, in...); err != nil {
		return nil, fmt.Errorf("list Jobs of %s: %w", target, err)
	}
	for i := range all.Items {
		if o := &all.Items[i]; under(o, jobs.Kind, target) {
			owners = append(owners, o.UID)
		}
	}
	return owners, nil
}

// under reports whether an object is the target, or is controlled by the target.
func under(o client.Object, kind string, target workload.Target) bool {
	group := appsv1.GroupName
	if kind == jobs.Kind {
		group = batchv1.GroupName
	}
	owner, owned := workload.ControllerOf(o)
	return owned && owner.Target == target || target == workload.Target{Group: group, Kind: kind, Name: o.GetName()}
}

// addEntries adds the creations whose pods are not seen.
func (r *Reconciler) addEntries(ctx context.Context, s *situation) error {
	book, err := r.Books.Look(ctx, books.OfSpread(s.object))
	if err != nil {
		return err
	}
	q := placement.Query{Namespace: s.object.Namespace}
	for key, e := range book.Entries {
		q.Creations = append(q.Creations, placement.Creation{Key: key, After: e.Version})
	}
	seen, now := r.Tally.View(q).Seen, r.Clock.Now() // also if the pod is gone since
	for key, e := range book.Entries {
		if _, found := seen[key]; !found && now.Before(e.Expires) {
			s.entries = append(s.entries, spread.Entry{Key: key, Subset: e.Subset, Owner: e.Owner, Since: e.Since})
		}
	}
	return nil
}

// revisionOf names the revision of each controller.
func (s *situation) revisionOf() map[string]string {
	names := map[string]string{}
	for _, m := range s.pods {
		names[string(m.owner)] = m.revision
	}
	return names
}

// revisions are the pods and entries of each revision.
func (s *situation) revisions() map[string]spread.Revision {
	all, names := map[string]spread.Revision{}, s.revisionOf()
	of := func(name string) spread.Revision {
		if r, ok := all[name]; ok {
			return r
		}
		return spread.Revision{Pods: map[string]int32{}}
	}
	for _, m := range s.pods {
		rev := of(m.revision)
		rev.Pods[m.subset]++
		all[m.revision] = rev
	}
	for _, e := range s.entries {
		name, ok := names[e.Owner]
		if !ok {
			name = appsv1beta1.VersionIgnored
		}
		rev := of(name)
		rev.Entries = append(rev.Entries, e)
		all[name] = rev
	}
	return all
}
