package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workloads"
)

const (
	// followerDelay is how long other replicas leave a gated pod to the leader. Any replica may
	// open a gate, so that none stays closed while a leader is elected.
	followerDelay = 2 * time.Second
	// conflictRetry is how long the nomination of a pod is retried after a conflict. The gate is
	// opened in any case.
	conflictRetry = time.Minute
	// refusedRetry is the longest delay after a refusal that may be over soon, such as that of a webhook that is down.
	refusedRetry = 10 * time.Second
)

// Nominator nominates the node to which a gated pod returns, and opens its gate. It runs
// in every replica.
type Nominator struct {
	Client    client.Client
	Workloads *workloads.Reader
	Clock     clock.PassiveClock
	Leases    *LeaseMonitor
	// Elected is closed when this replica leads.
	Elected <-chan struct{}
	Events  events.EventRecorder

	reported sync.Map // the last notice, by the key of a pod
	seen     sync.Map // the last stay, by the key of a pod
	promises promises
}

// notice is why a pod's gate stays closed.
type notice struct {
	pod  types.UID
	text string
}

// stay is when this replica first saw a pod in a stage.
type stay struct {
	pod     types.UID
	stage   string
	since   time.Time
	refused bool // the last opening of the gate
}

// noteSize is the longest message that is quoted in an event.
const noteSize = 800

// SetupWithManager registers the reconciler.
func (n *Nominator) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("nominate").
		WatchesRawSource(cluster.PodEvents(mgr.GetCache(), unbound, gateHandler(), podWaits)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: nominators, NewQueue: gateQueue,
			NeedLeaderElection: new(false),
			// A pod should not wait behind a gate longer than a failing API server forces.
			RateLimiter: cluster.BackOff[reconcile.Request](time.Second),
		}).
		Complete(cluster.RetryOnConflict(n))
}

// Reconcile nominates a pod's node and opens its gate.
func (n *Nominator) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var pod corev1.Pod
	if err := n.Client.Get(ctx, req.NamespacedName, &pod); err != nil {
		n.forget(req)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	in := pin.GateInput{Pod: &pod, Now: n.Clock.Now()}
	known := n.stay(req, &pod, in.Now)
	in.Since = known.since
	decision, err := n.plan(ctx, in)
	if err != nil {
		return ctrl.Result{}, err
	}
	if decision.Reason == pin.ReasonNodeSilent {
		n.report(req, &pod, decision.Reason, decision.Message)
	}
	switch {
	case decision.Withdraw:
		log.FromContext(ctx).Info("Withdraw nomination", "message", decision.Message)
		n.forget(req)
		return ctrl.Result{}, client.IgnoreNotFound(n.nominate(ctx, &pod, ""))
	case decision.Open:
		return n.act(ctx, req, in, decision, known)
	case decision.Again == 0: // another replica has opened the gate
		n.forget(req)
	}
	return ctrl.Result{RequeueAfter: decision.Again}, nil
}

// forget drops what is remembered of a pod.
func (n *Nominator) forget(req ctrl.Request) {
	n.reported.Delete(req)
	n.seen.Delete(req)
}

// act nominates the node of a decision, if any, and opens the gate. After a refusal it writes nothing until a dry run
// passes.
func (n *Nominator) act(ctx context.Context, req ctrl.Request, in pin.GateInput, decision pin.GateDecision, known stay) (ctrl.Result, error) {
	pod, waited := in.Pod, in.Now.Sub(in.Since)
	nominated := decision.Nominate != ""
	if nominated && known.refused {
		if err := n.open(ctx, pod, client.DryRunAll); err != nil && n.reportRefusal(req, pod, err) {
			return later(ctx, waited, err), nil
		}
	}
	if nominated {
		switch err := n.nominate(ctx, pod, decision.Nominate); {
		case apierrors.IsNotFound(err):
			return ctrl.Result{}, nil
		case apierrors.IsConflict(err) && waited < conflictRetry:
			return ctrl.Result{}, err // it is another pod of the same name by now, or another client changed it
		case err != nil:
			// The pod also has a preference; another node is better than none.
			log.FromContext(ctx).Error(err, "Pod is scheduled without a nomination")
			nominated = false
		}
	}
	switch err := client.IgnoreNotFound(n.open(ctx, pod)); {
	case err != nil && n.reportRefusal(req, pod, err):
		known.refused = true
		n.seen.Store(req, known)
		if nominated {
			err = errors.Join(err, n.nominate(ctx, pod, "")) // it would keep others from room that the pod does not take
		}
		return later(ctx, waited, err), nil
	case err != nil: // a conflict may mean that another pod of the same name has a gate of its own
		return ctrl.Result{}, fmt.Errorf("open gate of pod %s: %w", req, err)
	}
	n.forget(req)
	log.FromContext(ctx).V(1).Info("Opened gate", "reason", decision.Reason, "message", decision.Message)
	return ctrl.Result{}, nil
}

// later is when a gate is tried again whose opening was refused: after as long as the pod has waited.
func later(ctx context.Context, waited time.Duration, err error) ctrl.Result {
	longest := refusedRetry
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		longest = cluster.RetryLate
	}
	log.FromContext(ctx).Info("Gate is not opened", "reason", err.Error())
	return ctrl.Result{RequeueAfter: min(max(waited, time.Second), longest)}
}

// plan gathers the facts about the pod's node, and decides.
func (n *Nominator) plan(ctx context.Context, in pin.GateInput) (decision pin.GateDecision, err error) {
	pod, waited := in.Pod, in.Now.Sub(in.Since)
	if wait := followerDelay - waited; !cluster.Leads(n.Elected) && wait > 0 {
		return pin.GateDecision{Again: wait}, nil
	}
	if pin.Stage(pod) == pin.ReasonLingers {
		if in.Ending, err = n.ending(ctx, pod.Status.NominatedNodeName); err != nil {
			return decision, err
		}
	}
	if !pin.Gated(pod) || pod.Annotations[pin.AnnotationNode] == "" {
		return pin.PlanGate(in), nil
	}
	switch err := n.addHomes(ctx, &in); {
	case err != nil && waited < conflictRetry:
		return decision, fmt.Errorf("plan gate of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	case err != nil:
		log.FromContext(ctx).Error(err, "Pod is scheduled without knowing its place")
	}
	if in.Asks() == "" {
		return pin.PlanGate(in), nil
	}
	if in.Node, err = cluster.Node(ctx, n.Client, in.Asks()); err != nil {
		return decision, fmt.Errorf("plan gate of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if in.Node == nil {
		return pin.PlanGate(in), nil
	}
	if in.Silent, err = n.Leases.Overdue(ctx, in.Node.Name); err != nil {
		log.FromContext(ctx).Error(err, "Pod is scheduled without knowing whether its node is alive") // which is no reason to keep it waiting
	}
	return n.promises.plan(ctx, n.Client, in)
}

// ending reports whether a pod ends on a node.
func (n *Nominator) ending(ctx context.Context, node string) (bool, error) {
	pods, err := cluster.PodsOn(ctx, n.Client, node)
	return slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }), err
}

// stay returns when this replica first saw a pod in its stage.
func (n *Nominator) stay(req ctrl.Request, pod *corev1.Pod, now time.Time) stay {
	known, _ := n.seen.Load(req)
	first, ok := known.(stay)
	if stage := pin.Stage(pod); !ok || first.pod != pod.UID || first.stage != stage {
		first = stay{pod: pod.UID, stage: stage, since: now}
		n.seen.Store(req, first)
	}
	return first
}

// report makes an event of why a pod's gate stays closed, once for each reason. Only the
// leader does so, so that replicas do not repeat each other.
func (n *Nominator) report(req ctrl.Request, pod *corev1.Pod, reason, text string) {
	if !cluster.Leads(n.Elected) {
		return
	}
	now := notice{pod: pod.UID, text: strings.ToValidUTF8(text[:min(len(text), noteSize)], "")}
	if before, _ := n.reported.Swap(req, now); before != now {
		n.Events.Eventf(pod, nil, corev1.EventTypeWarning, reason, "Gate", "%s", now.text)
	}
}

// reportRefusal reports that the API server, or an admission webhook, refused to open a
// gate, and reports whether it did. A conflict or a missing answer is no refusal.
func (n *Nominator) reportRefusal(req ctrl.Request, pod *corev1.Pod, err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || apierrors.IsConflict(err) {
		return false
	}
	n.report(req, pod, pin.ReasonGateNotOpened, fmt.Sprintf(
		"gate %s may not be removed, which is tried again; remedy: exempt limpet-controller from what refuses it: %v", pin.Gate, err))
	return true
}

// nominate sets one field of the status and no other. Without a node it withdraws the
// nomination.
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

// open removes our gate by its name. Other gates stay, even those that were added or
// removed since the pod was read.
func (n *Nominator) open(ctx context.Context, pod *corev1.Pod, opts ...client.PatchOption) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID},
		"spec":     map[string]any{"schedulingGates": []any{map[string]any{"$patch": "delete", "name": pin.Gate}}},
	})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	return n.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch), opts...)
}
