package keepnodes

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// manager is the name under which annotations are applied. The policy of deploy/keep-nodes names it, too.
const manager = "limpet-keep-nodes"

// Period is the time between two looks. Autoscalers leave an empty node for minutes.
const Period = 15 * time.Second

// Keeper writes the annotations. It runs on the leader.
type Keeper struct {
	Client client.Client
	Clock  clock.Clock

	away map[types.UID]time.Time // since when this process sees that a Node is not Ready
}

// Needs is what the Keeper reads from the caches.
func Needs() cluster.Needs {
	return cluster.Needs{Objects: []cluster.Need{cluster.Of(cluster.NodeOwner, reserved), cluster.Of(cluster.NodeReadiness, annotated)}}
}

// reserved keeps how many addresses a node reserves and has lent, and until when.
func reserved(from, to *v1alpha1.NodeIPPool) {
	s := from.Status
	to.Status.Node, to.Status.Reserved, to.Status.Lent, to.Status.ReservedUntil = s.Node, s.Reserved, s.Lent, s.ReservedUntil
}

// annotated keeps our annotations, and whether they are ours.
func annotated(from, to *corev1.Node) {
	for _, key := range annotations {
		if value, there := from.Annotations[key]; there {
			metav1.SetMetaDataAnnotation(&to.ObjectMeta, key, value)
		}
	}
	i := slices.IndexFunc(from.ManagedFields, applied)
	if i >= 0 {
		to.ManagedFields = []metav1.ManagedFieldsEntry{from.ManagedFields[i]} // a part of the slice would keep all of it
	}
}

// SetupWithManager runs the Keeper on every leader.
func (k *Keeper) SetupWithManager(mgr ctrl.Manager) error { return mgr.Add(k) }

// Start keeps nodes until the context ends. The same error in a row is logged once.
func (k *Keeper) Start(ctx context.Context) error {
	last := ""
	for {
		text := ""
		if err := k.Keep(ctx); err != nil && ctx.Err() == nil {
			if text = err.Error(); text != last {
				log.FromContext(ctx).Error(err, "Annotations of Nodes that autoscalers read are old")
			}
		}
		last = text
		select {
		case <-k.Clock.After(Period):
		case <-ctx.Done():
			return nil
		}
	}
}

// Keep writes the annotations that have to change.
func (k *Keeper) Keep(ctx context.Context) error {
	nodes, err := cluster.Nodes(ctx, k.Client)
	if err != nil {
		return err
	}
	pools, err := cluster.Pools(ctx, k.Client)
	if err != nil {
		return err
	}
	now, reserves := k.Clock.Now(), map[string]bool{}
	for i := range pools { // a dead agent tells of reservations that have ended
		if s := pools[i].Status; s.Reserved > s.Lent && (s.ReservedUntil == nil || now.Before(s.ReservedUntil.Time)) {
			reserves[s.Node] = true
		}
	}
	k.away = away(nodes, k.away, now)
	return k.write(ctx, Plan(Input{nodes, reserves, k.away, now}))
}

// away returns since when Nodes are not Ready, given those of the look before.
func away(nodes []*corev1.Node, before map[types.UID]time.Time, now time.Time) map[types.UID]time.Time {
	all := map[types.UID]time.Time{}
	for _, n := range nodes {
		if since, known := before[n.UID]; !fit.Ready(n) {
			all[n.UID] = now
			if known {
				all[n.UID] = since
			}
		}
	}
	return all
}

// write returns the first error, so that thousands of Nodes without the right are one line of the log.
func (k *Keeper) write(ctx context.Context, changes []Change) (first error) {
	for _, c := range changes {
		if err := k.apply(ctx, c); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// apply leaves a Node alone that was made again, or whose annotation another program has written meanwhile.
func (k *Keeper) apply(ctx context.Context, c Change) error {
	want := map[string]string{}
	for _, key := range c.Keys {
		want[key] = "true"
	}
	data, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": c.Node.Name, "uid": c.Node.UID, "annotations": want},
	})
	if err != nil {
		return fmt.Errorf("encode annotations: %w", err)
	}
	o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.Node.Name}}
	err = k.Client.Patch(ctx, o, client.RawPatch(types.ApplyPatchType, data), client.FieldOwner(manager))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("annotate Node %s: %w", c.Node.Name, err)
	}
	return nil
}
