package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/rollout"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Reasons of events on a StatefulSet.
const (
	ReasonInvalidLimit    = "InvalidScaleOutLimit" // limpet.dev/scale-out-limit cannot be read: new pods start without a limit
	ReasonScaleOutLimited = "ScaleOutLimited"      // new pods wait until fewer pods than the limit are not Ready
)

var sets = appsv1.SchemeGroupVersion.WithKind("StatefulSet")

// Opener opens the gates of the pods of StatefulSets.
type Opener struct {
	Client  client.Client
	Clock   clock.PassiveClock
	Events  events.EventRecorder
	Metrics *Metrics

	memory memory
}

// Reconcile opens the gates of the pods of one StatefulSet.
func (o *Opener) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var set appsv1.StatefulSet
	if err := o.Client.Get(ctx, req.NamespacedName, &set, client.UnsafeDisableDeepCopy); err != nil {
		o.memory.forget(req)
		return ctrl.Result{}, client.IgnoreNotFound(err) // the pods of a set that is gone have no limit
	}
	pods, err := cluster.PodsOf(ctx, o.Client, set.Namespace, workload.NewTarget(sets.GroupVersion().String(), sets.Kind, set.Name))
	if err != nil {
		return ctrl.Result{}, err
	}
	limit, limited, err := limitOf(&set)
	if err != nil {
		o.Events.Eventf(&set, nil, corev1.EventTypeWarning, ReasonInvalidLimit, "Open", "%s: %v; new pods start without a limit", appsv1beta1.AnnotationScaleOutLimit, err)
	}
	open, again := o.plan(req, &set, pods, limit, limited)
	var errs []error
	for i := range pods {
		if !open[pods[i].Name] {
			continue
		}
		errs = append(errs, o.open(ctx, req, &pods[i], limited))
	}
	return ctrl.Result{RequeueAfter: again}, errors.Join(errs...)
}

// limitOf returns the limit of a StatefulSet, and whether it has one. The pods of a set that
// starts them one after the other need none.
func limitOf(set *appsv1.StatefulSet) (limit int, limited bool, err error) {
	text, asked := set.Annotations[appsv1beta1.AnnotationScaleOutLimit]
	if !asked || set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement || set.DeletionTimestamp != nil {
		return 0, false, nil
	}
	limit, err = rollout.LimitOf(text, ptr.Deref(set.Spec.Replicas, 1))
	return limit, err == nil, err
}

// plan decides which pods' gates are opened. Those of pods that the set does not want are closed:
// its controller deletes such pods.
func (o *Opener) plan(req ctrl.Request, set *appsv1.StatefulSet, pods []corev1.Pod, limit int, limited bool) (open map[string]bool, again time.Duration) {
	in := rollout.ScaleOutInput{
		Limit: limit, MinReady: time.Duration(set.Spec.MinReadySeconds) * time.Second, Now: o.Clock.Now(),
	}
	if !limited {
		in.Limit = math.MaxInt
	}
	desired := desiredOf(set)
	for i := range pods {
		owner, _ := workload.ControllerOf(&pods[i])
		if owner.UID == set.UID && (!limited || desired.Contains(pods[i].Name, 0)) {
			in.Pods = append(in.Pods, o.pod(req, &pods[i], in.Now))
		}
	}
	d := rollout.ScaleOut(in)
	if o.waits(req, d.Waiting) {
		o.Events.Eventf(set, nil, corev1.EventTypeNormal, ReasonScaleOutLimited, "Open",
			"%d new pods wait behind the gate %s: %d pods may be on their way at a time", d.Waiting, appsv1beta1.GateScaleOut, limit)
	}
	open = map[string]bool{}
	for _, name := range d.Open {
		open[name] = true
	}
	return open, d.Again
}

func desiredOf(set *appsv1.StatefulSet) workload.Desired {
	d := workload.Desired{Replicas: ptr.Deref(set.Spec.Replicas, 1)}
	if set.Spec.Ordinals != nil {
		d.Start = set.Spec.Ordinals.Start
	}
	return d
}

// pod describes one pod. A gate that was just opened is open although the cache does not show it.
func (o *Opener) pod(req ctrl.Request, of *corev1.Pod, now time.Time) rollout.Pod {
	p := rollout.Pod{
		Name: of.Name, Ordinal: ordinalOf(of.Name), Gated: gated(of) && !o.memory.unseen(req, of, now),
		Ended: !workload.Alive(of), Ready: workload.Ready(of),
	}
	for _, c := range of.Status.Conditions {
		if c.Type == corev1.PodReady {
			p.Since = c.LastTransitionTime.Time
		}
	}
	return p
}

// ordinalOf is the ordinal of a pod. A name without one comes last.
func ordinalOf(name string) int64 {
	ordinal, err := strconv.ParseInt(name[strings.LastIndexByte(name, '-')+1:], 10, 32)
	if err != nil {
		return math.MaxInt64
	}
	return ordinal
}

// open opens the gate of a pod.
func (o *Opener) open(ctx context.Context, req ctrl.Request, of *corev1.Pod, limited bool) error {
	pod := of.DeepCopy()
	switch err := openGate(ctx, o.Client, pod); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return err
	}
	o.memory.opened(req, pod, o.Clock.Now())
	o.Metrics.opened(limited)
	return nil
}

// openGate removes the gate by its name, from the pod with this UID. Other gates stay.
func openGate(ctx context.Context, c client.Client, pod *corev1.Pod) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"spec":     map[string]any{"schedulingGates": []any{map[string]any{"$patch": "delete", "name": appsv1beta1.GateScaleOut}}},
	})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	if err := c.Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
		return fmt.Errorf("open gate %s of pod %s/%s: %w", appsv1beta1.GateScaleOut, pod.Namespace, pod.Name, err)
	}
	return nil
}

// waits remembers how many pods of a set wait, and reports whether the first ones do.
func (o *Opener) waits(req ctrl.Request, n int) (first bool) {
	before := o.memory.wait(req, n)
	return before == 0 && n > 0
}
