package admit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/spread"
)

// errOrdinal is returned for a pod of a StatefulSet whose name ends in no number, or whose
// StatefulSet does not exist.
var errOrdinal = errors.New("pod has no ordinal of its StatefulSet")

// assign decides about the subset of a pod by its ordinal. All replicas compute the same, so
// that nothing is written.
func (p *placing) assign(ctx context.Context, dryRun bool) (outcome, error) {
	rules, err := p.rules(ctx)
	if err != nil {
		return outcome{}, err
	}
	ordinal, ok := ordinalOf(p.facts.Pod.Name)
	if !ok {
		return outcome{}, fmt.Errorf("%w: %q", errOrdinal, p.facts.Pod.Name)
	}
	desired, _, err := p.Workloads.Read(ctx, p.object.Namespace, p.owner.Target)
	if err != nil {
		return outcome{}, err
	}
	if desired == nil {
		if desired, err = p.liveDesired(ctx, dryRun); err != nil {
			return outcome{}, err
		}
	}
	in := spread.OrdinalInput{Spread: rules, Desired: *desired, Pod: p.facts.Pod}
	if err := p.gatherOrdinals(ctx, &in, ordinal); err != nil {
		return outcome{}, err
	}
	d := spread.Assign(in).Of(ordinal)
	if !in.Wants(ordinal) && !dryRun && p.owner.Group == appsv1.GroupName {
		if desired, err = p.liveDesired(ctx, dryRun); err != nil { // the cache is behind
			return outcome{}, err
		}
		in.Desired = *desired
		if in.Spread, err = p.rulesFor(rules, desired.Replicas); err != nil {
			return outcome{}, err
		}
		d = spread.Assign(in).Of(ordinal)
	}
	return outcome{Decision: d, rules: in.Spread}, nil
}

// rulesFor returns what the spread says for another size of its target. Fields that a user names
// were read past the cache already.
func (p *placing) rulesFor(rules spread.Spread, size int32) (spread.Spread, error) {
	if len(p.Sizes.PathsOf(p.object)) > 0 {
		return rules, nil
	}
	return spread.Of(p.object, size)
}

// liveDesired reads a StatefulSet of Kubernetes past the cache.
func (p *placing) liveDesired(ctx context.Context, dryRun bool) (*workload.Desired, error) {
	if dryRun || p.owner.Group != appsv1.GroupName {
		return nil, fmt.Errorf("%w: %s is not known", errOrdinal, p.owner.Target)
	}
	var set appsv1.StatefulSet
	key := client.ObjectKey{Namespace: p.object.Namespace, Name: p.owner.Name}
	if err := p.Live.Get(ctx, key, &set); err != nil {
		return nil, fmt.Errorf("get StatefulSet %s: %w", key, err)
	}
	desired := &workload.Desired{Replicas: ptr.Deref(set.Spec.Replicas, 1)}
	if set.Spec.Ordinals != nil {
		desired.Start = set.Spec.Ordinals.Start
	}
	return desired, nil
}

// gatherOrdinals gathers the subsets of the other pods, and the recorded places of those that do
// not exist.
func (p *placing) gatherOrdinals(ctx context.Context, in *spread.OrdinalInput, own int32) error {
	pods, err := cluster.PodsOf(ctx, p.Cached, p.object.Namespace, p.owner.Target)
	if err != nil {
		return err
	}
	in.Pods, in.Homes = map[int32]string{}, map[int32]spread.Home{own: p.home}
	nodes := p.nodes()
	for i := range pods {
		pod := &pods[i]
		ordinal, ok := ordinalOf(pod.Name)
		owner, _ := workload.ControllerOf(pod)
		if !ok || ordinal == own || owner.UID != p.owner.UID || !workload.Alive(pod) {
			continue
		}
		if in.Pods[ordinal] = matched(pod, p.object.Name); has(in.Spread, in.Pods[ordinal]) || pod.Spec.NodeName == "" {
			continue
		}
		node, err := nodes(ctx, pod.Spec.NodeName)
		if err != nil {
			return err
		}
		in.Pods[ordinal] = spread.SubsetOf(in.Spread, pod, node)
	}
	return p.gatherHomes(ctx, in, nodes)
}

// gatherHomes gathers the recorded nodes of pods that do not exist.
func (p *placing) gatherHomes(ctx context.Context, in *spread.OrdinalInput, nodes nodeReader) error {
	recorded, err := p.Recorded(ctx, p.object.Namespace, p.owner.Target)
	if err != nil {
		return err
	}
	skips := slices.ContainsFunc(in.Spread.Subsets, func(s spread.Subset) bool { return s.Unschedulable })
	for name, on := range recorded {
		ordinal, ok := ordinalOf(name)
		_, exists := in.Pods[ordinal]
		if _, own := in.Homes[ordinal]; !ok || exists || own {
			continue
		}
		node, err := nodes(ctx, on)
		if err != nil {
			return err
		}
		away, err := p.fellBack(ctx, name)
		if err != nil {
			return err
		}
		if node == nil || away {
			continue
		}
		home := spread.Home{Node: node}
		if skips { // where no subset is skipped, room counts for nothing
			if home.Room, err = p.room(ctx, name, node); err != nil {
				return err
			}
		}
		in.Homes[ordinal] = home
	}
	return nil
}

type nodeReader func(context.Context, string) (*corev1.Node, error)

// nodes reads each node once.
func (p *placing) nodes() nodeReader {
	known := map[string]*corev1.Node{}
	return func(ctx context.Context, name string) (*corev1.Node, error) {
		node, ok := known[name]
		if ok {
			return node, nil
		}
		node, err := cluster.Node(ctx, p.Cached, name)
		known[name] = node
		return node, err
	}
}

// ordinalOf returns the number at the end of a pod's name.
func ordinalOf(pod string) (int32, bool) {
	at := strings.LastIndexByte(pod, '-')
	n, err := strconv.ParseInt(pod[at+1:], 10, 32)
	return int32(n), at > 0 && err == nil && n >= 0
}
