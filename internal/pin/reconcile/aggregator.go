package reconcile

import (
	"context"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// tellInterval is the time between two looks for notices that are due.
const tellInterval = time.Second

// Aggregator makes the events about the addresses of pods. It gathers what happens to the pods of a workload
// within some seconds into one event, so that a rollout of many pods costs a few. The Aggregator runs on
// the leader, and tells what changes while it leads. A start repeats nothing but conflicts that last.
type Aggregator struct {
	Client client.Client
	Cache  cache.Informers
	Clock  clock.Clock
	Events events.EventRecorder
	Pace   pin.Pace
	// Lead waits until this replica leads; nil without an election.
	Lead func(context.Context) error

	mu        sync.Mutex
	gathering pin.Gathering
	sight     sight
}

// SetupWithManager runs the aggregator on every leader.
func (a *Aggregator) SetupWithManager(mgr ctrl.Manager) error {
	a.gathering.Pace, a.sight = a.Pace, sight{a.Client, a.Clock, a.add}
	return mgr.Add(a)
}

// Start tells until the context ends. What waits then is not told, except conflicts: the next leader sees these again.
func (a *Aggregator) Start(ctx context.Context) error {
	end, err := a.sight.follow(ctx, a.Cache)
	if err != nil {
		return err
	}
	defer end()
	for {
		select {
		case <-a.Clock.After(tellInterval):
		case <-ctx.Done():
			return nil
		}
		if a.Lead != nil {
			if err := a.Lead(ctx); err != nil {
				return nil // the context has ended
			}
		}
		a.tell(ctx)
	}
}

// add adds a notice.
func (a *Aggregator) add(n pin.Notice) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.gathering.Add(a.Clock.Now(), n)
}

// returned adds a pod that was kept, with what the event says if the pod stays alone.
func (a *Aggregator) returned(state *appsv1beta1.PersistentPodState, pod *corev1.Pod, rebuild appsv1beta1.Rebuild, text string) {
	n := pin.Notice{
		Reason: pin.ReasonReturned, Namespace: pod.Namespace, Pod: pod.Name, UID: pod.UID, Node: rebuild.To.NodeName, IPs: rebuild.To.IPs, Text: text,
		By: referTo(state, appsv1beta1.GroupVersion.WithKind("PersistentPodState")),
	}
	n.About = n.By
	if metav1.GetControllerOfNoCopy(pod) != nil {
		n.About = ownerOf(pod)
	}
	n.Workload = n.About.Kind + "/" + n.About.Name
	a.add(n)
}

// tell makes the events that are due.
func (a *Aggregator) tell(ctx context.Context) {
	a.mu.Lock()
	var failed error
	digests := a.gathering.Due(a.Clock.Now(), func(n *pin.Notice) bool {
		holds, err := a.sight.confirm(ctx, n)
		if err != nil {
			failed = err
		}
		return holds
	})
	a.mu.Unlock()
	for _, d := range digests {
		if err := a.write(ctx, d); err != nil {
			failed = err
		}
	}
	if failed != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(failed, "Events about addresses were not made")
	}
}

// write makes one event. client-go drops the text of an event that differs from an earlier one in
// its text alone; the related pod differs.
func (a *Aggregator) write(ctx context.Context, d pin.Digest) error {
	var ns corev1.Namespace
	switch err := a.Client.Get(ctx, client.ObjectKey{Name: d.Namespace}, &ns, client.UnsafeDisableDeepCopy); {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("get namespace %s: %w", d.Namespace, err)
	case ns.DeletionTimestamp != nil: // it takes no events
		return nil
	}
	kind, first := corev1.EventTypeNormal, d.Notices[0]
	if d.Warning() {
		kind = corev1.EventTypeWarning
	}
	pod := first.Refer()
	switch {
	case d.Reason == pin.ReasonReturned && d.Single():
		a.Events.Eventf(pod, first.By, kind, string(appsv1beta1.Kept), "Rebuild", "%s", d.Text())
		return nil
	case (d.Reason == pin.ReasonConflict || d.Reason == pin.ReasonNotOwner) && d.Single():
		a.Events.Eventf(pod, nil, kind, d.Reason, "Rebuild", "%s", d.Text())
		return nil
	}
	about, err := a.about(ctx, first)
	if err != nil {
		return err
	}
	a.Events.Eventf(about, pod, kind, d.Reason, "Rebuild", "%s", d.Text())
	return nil
}

// about returns the object for an event about the pods of a workload: the workload, or else its
// PersistentPodState, or else the first pod.
func (a *Aggregator) about(ctx context.Context, n pin.Notice) (*corev1.ObjectReference, error) {
	if n.About != nil {
		return n.About, nil
	}
	if n.Workload == n.Pod {
		return n.Refer(), nil
	}
	var set appsv1.StatefulSet
	key := client.ObjectKey{Namespace: n.Namespace, Name: n.Workload}
	switch err := a.Client.Get(ctx, key, &set, client.UnsafeDisableDeepCopy); {
	case err == nil:
		return referTo(&set, appsv1.SchemeGroupVersion.WithKind(workloads.StatefulSets.Kind)), nil
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("get StatefulSet %s: %w", key, err)
	}
	target := workload.Target{Group: appsv1beta1.GroupVersion.Group, Kind: workloads.StatefulSets.Kind, Name: n.Workload}
	states, err := cluster.StatesOf(ctx, a.Client, n.Namespace, target)
	if err != nil {
		return nil, err
	}
	if state := pin.Choose(states); state != nil {
		return referTo(state, appsv1beta1.GroupVersion.WithKind("PersistentPodState")), nil
	}
	return n.Refer(), nil
}

func referTo(o client.Object, kind schema.GroupVersionKind) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(),
	}
}
