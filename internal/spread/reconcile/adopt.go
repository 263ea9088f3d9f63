package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/spread"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// mostAdopted is how many pods of a spread are adopted in one look. The rest of a spread of more than
// 5 000 pods lasts longer than a second, and so does the time until the next look.
const mostAdopted = 50

// adopt gives pods a subset that were there before the spread, the oldest first.
func (r *Reconciler) adopt(ctx context.Context, s *situation) (again time.Duration, err error) {
	waiting, none, err := r.adoptable(ctx, s)
	switch {
	case err != nil:
		return 0, err
	case len(waiting) > mostAdopted:
		waiting, again = waiting[:mostAdopted], soon
	case none:
		again = lookAgain
	}
	byRevision := map[string][]*member{}
	for _, m := range waiting {
		byRevision[m.revision] = append(byRevision[m.revision], m)
	}
	count := 0
	defer func() {
		if count > 0 {
			r.Metrics.moved(adopted, count)
			r.Events.Eventf(s.object, nil, corev1.EventTypeNormal, ReasonAdopted, "Adopt", "%d pods that were there before got a subset", count)
		}
	}()
	for revision, members := range byRevision {
		chosen, err := r.choose(ctx, s, revision, members)
		if err != nil {
			return 0, err
		}
		for _, m := range members {
			name := chosen[m.UID]
			if name == "" {
				again = sooner(again, lookAgain)
				continue
			}
			if err := r.annotate(ctx, s, m, name); err != nil {
				return 0, err
			}
			m.subset = name
			count++
		}
	}
	return again, nil
}

// adoptable are the pods that a subset can adopt, the oldest first. none tells that there are pods
// that no subset can adopt: those must not keep the others waiting.
func (r *Reconciler) adoptable(ctx context.Context, s *situation) (fitting []*member, none bool, err error) {
	waiting := s.unadopted()
	in := spread.AdoptInput{Spread: s.says, Nodes: map[string]*corev1.Node{}}
	in.Spread.Subsets = slices.Clone(s.says.Subsets)
	for i := range in.Spread.Subsets {
		in.Spread.Subsets[i].Patch = nil // decides between subsets alone, and costs time
	}
	for _, m := range waiting {
		in.Pods = append(in.Pods, m.Pod)
		if _, known := in.Nodes[m.Spec.NodeName]; known {
			continue
		}
		if in.Nodes[m.Spec.NodeName], err = cluster.Node(ctx, r.Client, m.Spec.NodeName); err != nil {
			return nil, false, err
		}
	}
	chosen := spread.Adopt(in)
	fitting = slices.DeleteFunc(waiting, func(m *member) bool { return chosen[m.UID] == "" })
	s.outside = len(in.Pods) - len(fitting)
	return fitting, s.outside > 0, nil
}

// unadopted are the pods with a node whose annotation names no subset that this spread has, the
// oldest first: pods that were there before the spread, and those of a subset that was removed.
func (s *situation) unadopted() (all []*member) {
	for _, m := range s.pods {
		known := slices.ContainsFunc(s.says.Subsets, func(o spread.Subset) bool { return o.Name == m.subset })
		if !known && m.Spec.NodeName != "" && len(s.says.Subsets) > 0 {
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b *member) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	return all
}

// choose asks spread.Adopt. A patch is compared with the whole pod, which the cache does not hold.
func (r *Reconciler) choose(ctx context.Context, s *situation, revision string, members []*member) (map[types.UID]string, error) {
	in := spread.AdoptInput{Spread: s.says, Nodes: map[string]*corev1.Node{}, Slots: s.slots()[revision]}
	whole := len(s.says.Subsets) > 1 && slices.ContainsFunc(s.says.Subsets, func(o spread.Subset) bool { return o.Patch != nil })
	for _, m := range members {
		pod := m.Pod
		if whole {
			live := &corev1.Pod{}
			if err := r.Live.Get(ctx, client.ObjectKeyFromObject(m), live); client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("get pod %s: %w", m.Name, err)
			}
			if live.UID != m.UID {
				continue // it is gone
			}
			pod = live
		}
		node, err := cluster.Node(ctx, r.Client, m.Spec.NodeName)
		if err != nil {
			return nil, err
		}
		in.Pods, in.Nodes[m.Spec.NodeName] = append(in.Pods, pod), node
	}
	return spread.Adopt(in), nil
}

// slots are the slots in use, by revision and subset.
func (s *situation) slots() map[string]map[string]spread.Slots {
	all := map[string]map[string]spread.Slots{}
	for name, revision := range s.revisions() {
		all[name] = map[string]spread.Slots{}
		for subset, n := range revision.Pods {
			all[name][subset] = spread.Slots{Pods: n}
		}
		for _, e := range revision.Entries {
			used := all[name][e.Subset]
			used.Booked++
			all[name][e.Subset] = used
		}
	}
	return all
}

// annotate writes the subset of a pod, and what the subset's patch adds to the metadata. A label
// or annotation that the pod has stays as it is: an owner or a Service may select by it.
func (r *Reconciler) annotate(ctx context.Context, s *situation, m *member, subset string) error {
	match := appsv1beta1.Match{Name: s.object.Name, Subset: subset}
	if before, err := matchOf(m.Pod); err == nil {
		match.UID = before.UID
	}
	metadata := map[string]any{"uid": m.UID, "resourceVersion": m.ResourceVersion}
	labels, annotations := map[string]string{}, map[string]string{}
	if s.object.Annotations[appsv1beta1.AnnotationKeepMetadata] != "true" {
		at := slices.IndexFunc(s.says.Subsets, func(o spread.Subset) bool { return o.Name == subset })
		labels, annotations = spread.MetadataOf(s.says.Subsets[at])
	}
	live := &corev1.Pod{}
	if len(labels)+len(annotations) > 0 { // the cache does not hold all annotations
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(m), live); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	if labels = without(labels, live.Labels); len(labels) > 0 {
		metadata["labels"] = labels
	}
	annotations = without(annotations, live.Annotations)
	annotations[appsv1beta1.AnnotationMatchedSpread] = match.String()
	metadata["annotations"] = annotations
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	err = r.Client.Patch(ctx, m.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("adopt pod %s: %w", m.Name, err)
	}
	return nil
}

// without returns the entries of a map whose keys another one does not have.
func without(all, known map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range all {
		if _, has := known[key]; !has {
			out[key] = value
		}
	}
	return out
}
