package pin

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/limpet-io/limpet/internal/cluster"
	"github.com/limpet-io/limpet/internal/workloads"
	"github.com/limpet-io/limpet/pkg/pin"
	"github.com/limpet-io/limpet/pkg/workload"
)

const (
	// targetGrace is how much later than a workload its PersistentPodState may be created.
	targetGrace = 30 * time.Second
	// longestNote is how long an event's text may be.
	longestNote = 1000
)

// Adviser makes an event of the annotations of a workload that do nothing. The webhook for
// workloads warns of the same when they are applied; a user may not see that answer.
type Adviser struct {
	Client client.Client
	// Workloads knows the kinds whose pods return under their names.
	Workloads *workloads.Reader
	// MaxReservation is the longest reservation that the plugin is configured with.
	MaxReservation time.Duration
	Clock          clock.PassiveClock
	Events         events.EventRecorder

	told sync.Map // the last advice in force, by kindRequest
}

// advised are the kinds of Kubernetes that users make, and of which the cache holds the pod
// template's annotations.
var advised = map[schema.GroupVersionKind]func() client.Object{
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"): func() client.Object { return &appsv1.StatefulSet{} },
	appsv1.SchemeGroupVersion.WithKind("Deployment"):  func() client.Object { return &appsv1.Deployment{} },
	batchv1.SchemeGroupVersion.WithKind("Job"):        func() client.Object { return &batchv1.Job{} },
}

// SetupWithManager registers the reconciler.
func (a *Adviser) SetupWithManager(mgr ctrl.Manager) error {
	c, err := controller.NewTyped("advise", mgr, controller.TypedOptions[kindRequest]{
		Reconciler: a, RateLimiter: cluster.BackOff[kindRequest](cluster.RetryLate),
		NewQueue: cluster.InTurn(0, func(req kindRequest) string { return req.Namespace }),
	})
	if err != nil {
		return fmt.Errorf("make controller: %w", err)
	}
	for kind, object := range advised {
		request := func(_ context.Context, o client.Object) []kindRequest {
			return []kindRequest{{kind, client.ObjectKeyFromObject(o)}}
		}
		if err := c.Watch(source.TypedKind(mgr.GetCache(), object(), handler.TypedEnqueueRequestsFromMapFunc(request), adviceChanged)); err != nil {
			return fmt.Errorf("watch %s: %w", kind.Kind, err)
		}
	}
	return a.watchUnreadable(mgr, c)
}

// shortNote cuts a text to what an event may hold.
func shortNote(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), longestNote)], "")
}

// adviceChanged passes workloads with annotations of Limpet, and changes of annotations.
var adviceChanged = predicate.TypedFuncs[client.Object]{
	CreateFunc: func(e event.TypedCreateEvent[client.Object]) bool {
		return len(e.Object.GetAnnotations())+len(templateOf(e.Object)) > 0 // the cache holds no others
	},
	UpdateFunc: func(e event.TypedUpdateEvent[client.Object]) bool {
		return !maps.Equal(e.ObjectOld.GetAnnotations(), e.ObjectNew.GetAnnotations()) ||
			!maps.Equal(templateOf(e.ObjectOld), templateOf(e.ObjectNew))
	},
}

// templateOf returns the annotations of a workload's pod template.
func templateOf(o client.Object) map[string]string {
	switch w := o.(type) {
	case *appsv1.StatefulSet:
		return w.Spec.Template.Annotations
	case *appsv1.Deployment:
		return w.Spec.Template.Annotations
	case *batchv1.Job:
		return w.Spec.Template.Annotations
	}
	return nil
}

// Reconcile tells the advice about one workload, once.
func (a *Adviser) Reconcile(ctx context.Context, req kindRequest) (ctrl.Result, error) {
	object, readable := advised[req.GroupVersionKind]
	if !readable {
		return ctrl.Result{}, a.tellUnreadable(ctx, req)
	}
	owner := object()
	if err := a.Client.Get(ctx, req.ObjectKey, owner); err != nil {
		a.told.Delete(req)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	in, err := a.gather(ctx, req, owner)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("gather for %s %s: %w", req.Kind, req.ObjectKey, err)
	}
	result := ctrl.Result{}
	if left := targetGrace - a.Clock.Since(owner.GetCreationTimestamp().Time); left > 0 && !in.Targeted {
		in.Targeted, result.RequeueAfter = true, left // its PersistentPodState may be applied next
	}
	text := strings.Join(pin.Advise(in), "; ")
	if text == "" {
		a.told.Delete(req)
		return result, nil
	}
	text = shortNote(text)
	if before, known := a.told.Swap(req, text); !known || before != text {
		a.Events.Eventf(owner, nil, corev1.EventTypeWarning, pin.ReasonIgnored, "Advise", "%s", text)
	}
	return result, nil
}

func (a *Adviser) gather(ctx context.Context, req kindRequest, owner client.Object) (pin.AdviceInput, error) {
	in := pin.AdviceInput{
		Kind: req.GroupVersionKind, Annotations: owner.GetAnnotations(), Template: templateOf(owner), MaxReservation: a.MaxReservation,
	}
	target := workload.Target{Group: req.Group, Kind: req.Kind, Name: req.Name}
	if in.Returns = a.Workloads.Kinds().Contains(target); !in.Returns {
		return in, nil
	}
	states, err := cluster.StatesOf(ctx, a.Client, req.Namespace, target)
	if err != nil {
		return in, err
	}
	in.Targeted = len(states) > 0
	in.Labels.Missing, in.Labels.Known, err = cluster.MissingLabels(ctx, a.Client, pin.TopologyKeys(in.Annotations))
	return in, err
}
