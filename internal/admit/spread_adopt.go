package admit

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fair"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/spread"
	"github.com/limpet-io/limpet/internal/spread/placement"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// correct counts what the tally cannot know: the pods that the reconciler has not adopted yet,
// and a pod of the same name, which is gone although the cache may show it.
func (p *placing) correct(ctx context.Context, f *spread.Facts, view placement.View) error {
	if view.Others > 0 || removed(f.Spread, f.Pods) > 0 {
		more, err := p.unadopted(ctx, f.Spread, view)
		if err != nil {
			return err
		}
		for subset, n := range more {
			f.Pods[subset] += n
		}
	}
	if p.facts.Pod.Name == "" {
		return nil
	}
	var before corev1.Pod
	key := client.ObjectKeyFromObject(p.facts.Pod)
	if err := p.Cached.Get(ctx, key, &before, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get pod %s: %w", key, err)
	}
	owner, _ := workload.ControllerOf(&before)
	if owner.UID != p.owner.UID || !workload.Alive(&before) {
		return nil
	}
	f.OwnerPods--
	if subset := matched(&before, p.object.Name); f.Pods[subset] > 0 {
		f.Pods[subset]--
	}
	return nil
}

// removed counts pods whose subset the spread no longer has.
func removed(rules spread.Spread, pods map[string]int32) (n int32) {
	for subset, count := range pods {
		if !has(rules, subset) {
			n += count
		}
	}
	return n
}

// has reports whether a spread has a subset.
func has(rules spread.Spread, subset string) bool {
	return slices.ContainsFunc(rules.Subsets, func(s spread.Subset) bool { return s.Name == subset })
}

// matched returns the subset of a spread that a pod has by its annotation; "" for none.
func matched(pod *corev1.Pod, name string) string {
	match, err := appsv1beta1.ParseMatch(pod.Annotations[appsv1beta1.AnnotationMatchedSpread])
	if err != nil || match.Name != name {
		return ""
	}
	return match.Subset
}

// unadopted counts the pods of the owner by the subset in which they will be adopted. The counts
// are computed again when one of these pods changes.
func (p *placing) unadopted(ctx context.Context, rules spread.Spread, view placement.View) (map[string]int32, error) {
	key := adoptionKey{p.object.UID, p.owner.UID}
	at := moment{generation: p.object.Generation, change: view.Unplaced, removed: removed(rules, view.Subsets)}
	if known, ok := p.adopted.Get(p.object.Namespace, key); ok && known.at == at {
		return known.counts, nil
	}
	pods, err := cluster.PodsOwnedBy(ctx, p.Cached, p.object.Namespace, p.owner.UID)
	if err != nil {
		return nil, err
	}
	in := spread.AdoptInput{Spread: rules, Nodes: map[string]*corev1.Node{}, Slots: map[string]spread.Slots{}}
	for subset, n := range view.Subsets {
		in.Slots[subset] = spread.Slots{Pods: n}
	}
	for i := range pods {
		pod := &pods[i]
		if !workload.Alive(pod) || pod.Spec.NodeName == "" || has(rules, matched(pod, p.object.Name)) {
			continue
		}
		in.Pods = append(in.Pods, pod)
		if _, ok := in.Nodes[pod.Spec.NodeName]; ok {
			continue
		}
		if in.Nodes[pod.Spec.NodeName], err = cluster.Node(ctx, p.Cached, pod.Spec.NodeName); err != nil {
			return nil, err
		}
	}
	counts := map[string]int32{}
	for _, subset := range spread.Adopt(in) {
		counts[subset]++
	}
	p.adopted.Put(fair.Bounds{All: mostAdoptions}, p.object.Namespace, key, adoption{at, maps.Clone(counts)})
	return counts, nil
}

// mostAdoptions bounds the memory of how many pods will be adopted in which subset: with thousands of pods that is too
// much for each creation.
const mostAdoptions = 1024

type adoptionKey struct{ spread, owner types.UID }

// adoption are the counts at one moment.
type adoption struct {
	at     moment
	counts map[string]int32
}

type moment struct {
	generation, change int64
	removed            int32
}
