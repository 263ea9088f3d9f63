package pin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/limpet-io/limpet/internal/cluster"
	"github.com/limpet-io/limpet/internal/workloads"
	"github.com/limpet-io/limpet/pkg/workload"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// AnnotationNudged on a workload says when it was last nudged; it has no other use.
const AnnotationNudged = "limpet.dev/nudged"

// nudgeLook is the time between two looks for workloads to nudge. They cost no request,
// and nobody says when the API server cannot reach a webhook: the leader may be well.
const nudgeLook = 2 * time.Second

// Resyncer wakes workloads whose pods were refused while no webhook was there. Their
// controller retries after a delay that has grown to minutes; a change of the object
// makes it try at once. It runs on the leader.
type Resyncer struct {
	Client    client.Client
	Workloads *workloads.Reader
	Clock     clock.Clock

	asleep map[sleeper]slept
}

// sleeper is a workload that lacks a pod.
type sleeper struct {
	workload.Target
	namespace string
}

// slept is since when a workload lacks a pod, and how often it was nudged since.
type slept struct {
	since  time.Time
	nudged int
}

// SetupWithManager lets the nudger run on every leader.
func (n *Resyncer) SetupWithManager(mgr ctrl.Manager) error { return mgr.Add(n) }

// Start looks until it is stopped.
func (n *Resyncer) Start(ctx context.Context) error {
	for {
		if err := n.resync(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Workloads were not nudged")
		}
		select {
		case <-n.Clock.After(nudgeLook):
		case <-ctx.Done():
			return nil
		}
	}
}

// nudge wakes whom it can: one workload that cannot be changed is no reason to leave the
// others asleep.
func (n *Resyncer) resync(ctx context.Context) error {
	missing, err := n.look(ctx)
	if err != nil {
		return err
	}
	now, asleep := n.Clock.Now(), map[sleeper]slept{}
	var errs []error
	for who, pods := range missing {
		s, known := n.asleep[who]
		if !known {
			s.since = now
		}
		if now.Sub(s.since) >= pin.NudgeAfter(s.nudged) {
			s.nudged++
			if err := n.wake(ctx, who, pods, now); err != nil {
				errs = append(errs, fmt.Errorf("nudge %s %s/%s: %w", who.Kind, who.namespace, who.Name, err))
			}
		}
		asleep[who] = s
	}
	n.asleep = asleep
	return errors.Join(errs...)
}

// look finds the workloads that lack pods, by the cache alone. Of those that are not
// StatefulSets of Kubernetes it holds no more than what is recorded of their pods, which
// comes along, to be looked at closer.
func (n *Resyncer) look(ctx context.Context) (map[sleeper][]string, error) {
	missing := map[sleeper][]string{}
	var sets appsv1.StatefulSetList
	if err := n.Client.List(ctx, &sets, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list StatefulSets: %w", err)
	}
	for i := range sets.Items {
		set := &sets.Items[i]
		_, asks := set.Spec.Template.Annotations[reservation.RetainAnnotation] // others are never refused
		if !asks || !pin.LacksPods(set, nil) {
			continue
		}
		who := sleeper{workload.Target{Group: appsv1.GroupName, Kind: workloads.StatefulSets.Kind, Name: set.Name}, set.Namespace}
		pods, err := n.pods(ctx, who)
		if err != nil {
			return nil, err
		}
		if pin.LacksPods(set, pods) {
			missing[who] = nil
		}
	}
	var states appsv1beta1.PersistentPodStateList
	if err := n.Client.List(ctx, &states, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list PersistentPodStates: %w", err)
	}
	for i := range states.Items {
		who := sleeper{pin.TargetOf(&states.Items[i]), states.Items[i].Namespace}
		if who.Group == appsv1.GroupName {
			continue
		}
		pods, err := n.pods(ctx, who)
		if err != nil {
			return nil, err
		}
		if names := pin.Missing(&states.Items[i], pods); len(names) > 0 {
			missing[who] = names
		}
	}
	return missing, nil
}

func (n *Resyncer) pods(ctx context.Context, who sleeper) ([]corev1.Pod, error) {
	return cluster.PodsOf(ctx, n.Client, who.namespace, who.Target)
}

// wake changes a workload, unless it wants none of the missing pods.
func (n *Resyncer) wake(ctx context.Context, who sleeper, missing []string, now time.Time) error {
	kind := workloads.StatefulSets
	if who.Group != appsv1.GroupName {
		served, err := n.Workloads.Served(who.Target)
		if err != nil {
			return nil //nolint:nilerr // nobody lets us, which the PersistentPodState tells
		}
		kind = served.GroupVersionKind
		desired, unread, err := n.Workloads.Read(ctx, who.namespace, who.Target)
		if err != nil || unread != "" || desired == nil {
			return err
		}
		if pods, err := n.pods(ctx, who); err != nil || !desired.ContainsAny(missing, pods) {
			return err
		}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{AnnotationNudged: now.UTC().Format(time.RFC3339)},
	}})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	o := workloads.Metadata(kind)
	o.Namespace, o.Name = who.namespace, who.Name
	if err := n.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return client.IgnoreNotFound(err)
	}
	log.FromContext(ctx).Info("Nudged workload", "kind", who.Kind, "workload", client.ObjectKeyFromObject(o))
	return nil
}
