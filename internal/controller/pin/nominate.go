package pin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/limpet-io/limpet/internal/cluster"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/limpet-io/limpet/pkg/pin"
)

// followerDelay is how long a replica that does not lead leaves a gated pod to the one that
// does. Any replica may open a gate, so that none stays closed while a leader is found.
// Creation times are full seconds, so that it is one second at least.
const followerDelay = 2 * time.Second

// conflictRetry is for how long after its creation a pod's nomination is tried again when that
// meets a conflict. A gate is opened in any case.
const conflictRetry = time.Minute

// Nominator tells the scheduler to which node a gated pod returns, and opens the gate.
// It runs in every replica.
type Nominator struct {
	Client client.Client
	Clock  clock.PassiveClock
	Leases *LeaseMonitor
	// Elected is closed when this replica leads.
	Elected <-chan struct{}
	Events  events.EventRecorder

	told sync.Map // of pod keys: the notice that was told last
}

// notice is why a pod's gate stays closed.
type notice struct {
	pod  types.UID
	text string
}

// noteSize is how much of another's words an event has room for.
const noteSize = 800

// SetupWithManager registers the reconciler.
func (n *Nominator) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("nominate").
		For(&corev1.Pod{}, builder.WithPredicates(podWaits)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: 8,
			NeedLeaderElection:      new(false),
			// Nobody should wait behind a gate longer than a failing API server forces.
			RateLimiter: cluster.BackOff[reconcile.Request](time.Second),
		}).
		Complete(cluster.RetryOnConflict(n))
}

// Reconcile nominates a pod's node and opens its gate.
func (n *Nominator) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var pod corev1.Pod
	if err := n.Client.Get(ctx, req.NamespacedName, &pod); err != nil {
		n.told.Delete(req)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	decision, err := n.plan(ctx, &pod)
	if err != nil {
		return ctrl.Result{}, err
	}
	switch {
	case decision.Reason == pin.ReasonNodeSilent:
		n.tell(req, &pod, decision.Reason, decision.Message)
	case !decision.Open && decision.Again == 0: // another replica has opened it
		n.told.Delete(req)
	}
	if !decision.Open {
		return ctrl.Result{RequeueAfter: decision.Again}, nil
	}
	if decision.Nominate != "" {
		switch err := n.nominate(ctx, &pod, decision.Nominate); {
		case apierrors.IsNotFound(err):
			return ctrl.Result{}, nil
		case apierrors.IsConflict(err) && n.Clock.Now().Sub(pod.CreationTimestamp.Time) < conflictRetry:
			return ctrl.Result{}, err // it is another pod of the same name by now, or others write to it as well
		case err != nil:
			// Better on another node, by the preference that the pod has too, than not at all.
			log.FromContext(ctx).Error(err, "Pod is scheduled without a nomination")
		}
	}
	switch err := n.open(ctx, &pod); {
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, nil
	case err != nil: // a conflict may hide another pod of the same name, behind a gate of its own
		n.tellRefused(req, &pod, err)
		return ctrl.Result{}, fmt.Errorf("open gate of pod %s: %w", req, err)
	}
	n.told.Delete(req)
	log.FromContext(ctx).V(1).Info("Opened gate", "reason", decision.Reason, "message", decision.Message)
	return ctrl.Result{}, nil
}

// plan gathers what is known of the pod's node.
func (n *Nominator) plan(ctx context.Context, pod *corev1.Pod) (pin.GateDecision, error) {
	in := pin.GateInput{Pod: pod, Now: n.Clock.Now()}
	if wait := followerDelay - in.Now.Sub(pod.CreationTimestamp.Time); !cluster.Leads(n.Elected) && wait > 0 {
		return pin.GateDecision{Again: wait}, nil
	}
	name := pod.Annotations[pin.AnnotationNode]
	if name == "" {
		return pin.PlanGate(in), nil
	}
	var err error
	if in.Node, err = cluster.Node(ctx, n.Client, name); err != nil {
		return pin.GateDecision{}, fmt.Errorf("plan gate of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if in.Silent, err = n.Leases.Overdue(ctx, name); err != nil {
		log.FromContext(ctx).Error(err, "Pod is scheduled without knowing whether its node is alive") // no reason to keep it waiting
	}
	return pin.PlanGate(in), nil
}

// tell says once of a pod why its gate stays closed, and again when that changes. The
// leader does, so that not every replica says the same.
func (n *Nominator) tell(req ctrl.Request, pod *corev1.Pod, reason, text string) {
	if !cluster.Leads(n.Elected) {
		return
	}
	now := notice{pod: pod.UID, text: strings.ToValidUTF8(text[:min(len(text), noteSize)], "")}
	if before, _ := n.told.Swap(req, now); before != now {
		n.Events.Eventf(pod, nil, corev1.EventTypeWarning, reason, "Gate", "%s", now.text)
	}
}

// tellRefused says that the API server, or whom it asks, answered that a gate may not be
// opened. A pod that changed meanwhile, and no answer at all, are another matter.
func (n *Nominator) tellRefused(req ctrl.Request, pod *corev1.Pod, err error) {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) && !apierrors.IsConflict(err) {
		n.tell(req, pod, pin.ReasonGateNotOpened, fmt.Sprintf(
			"gate %s may not be removed, which is tried again; remedy: exempt limpet-controller from what refuses it: %v", pin.Gate, err))
	}
}

// nominate leaves everything else in the status alone.
func (n *Nominator) nominate(ctx context.Context, pod *corev1.Pod, node string) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"status":   map[string]any{"nominatedNodeName": node},
	})
	if err != nil {
		return fmt.Errorf("encode nomination: %w", err)
	}
	if err := n.Client.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("nominate node %s: %w", node, err)
	}
	return nil
}

// open removes the one gate by its name: gates of others stay, whatever happened to the
// pod since it was read.
func (n *Nominator) open(ctx context.Context, pod *corev1.Pod) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"spec":     map[string]any{"schedulingGates": []any{map[string]any{"$patch": "delete", "name": pin.Gate}}},
	})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	return n.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
}
