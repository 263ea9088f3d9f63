package pin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

	"github.com/limpet-io/limpet/internal/cluster"
	"github.com/limpet-io/limpet/internal/workloads"
	"github.com/limpet-io/limpet/pkg/pin"
)

// followerDelay is how long other replicas leave a gated pod to the leader. Any replica may
// open a gate, so that none stays closed while a leader is elected. Creation times are
// whole seconds, so that the real delay is one second at least.
const followerDelay = 2 * time.Second

// conflictRetry is how long after a pod's creation its nomination is retried after a
// conflict. The gate is opened in any case.
const conflictRetry = time.Minute

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
	untried  sync.Map // since when a pod waits untried, by its key
	alone    sync.Map // since when a pod waits for a silent node alone, by its key
	promises promises
}

// notice is why a pod's gate stays closed.
type notice struct {
	pod  types.UID
	text string
}

// wait is when this replica saw first that a pod waits for something.
type wait struct {
	pod   types.UID
	since time.Time
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
		n.reported.Delete(req)
		n.untried.Delete(req)
		n.alone.Delete(req)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	decision, err := n.plan(ctx, &pod)
	if err != nil {
		return ctrl.Result{}, err
	}
	switch {
	case decision.Reason == pin.ReasonNodeSilent:
		n.report(req, &pod, decision.Reason, decision.Message)
	case !decision.Open && decision.Again == 0: // another replica has opened the gate
		n.reported.Delete(req)
	}
	if decision.Withdraw {
		log.FromContext(ctx).Info("Withdraw nomination", "message", decision.Message)
		return ctrl.Result{}, client.IgnoreNotFound(n.nominate(ctx, &pod, ""))
	}
	if decision.Reason != pin.ReasonNodeSilent && decision.Reason != pin.ReasonNodePauses {
		n.alone.Delete(req)
	}
	if !decision.Open {
		return ctrl.Result{RequeueAfter: decision.Again}, nil
	}
	return ctrl.Result{}, n.act(ctx, req, &pod, decision)
}

// act nominates the node of a decision, if any, and opens the gate.
func (n *Nominator) act(ctx context.Context, req ctrl.Request, pod *corev1.Pod, decision pin.GateDecision) error {
	nominated := decision.Nominate != ""
	if nominated {
		switch err := n.nominate(ctx, pod, decision.Nominate); {
		case apierrors.IsNotFound(err):
			return nil
		case apierrors.IsConflict(err) && n.Clock.Now().Sub(pod.CreationTimestamp.Time) < conflictRetry:
			return err // it is another pod of the same name by now, or another client changed it
		case err != nil:
			// The pod also has a preference; another node is better than none.
			log.FromContext(ctx).Error(err, "Pod is scheduled without a nomination")
			nominated = false
		}
	}
	switch err := n.open(ctx, pod); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil: // a conflict may mean that another pod of the same name has a gate of its own
		if n.reportRefusal(req, pod, err) && nominated {
			err = errors.Join(err, n.nominate(ctx, pod, "")) // the next try nominates again
		}
		return fmt.Errorf("open gate of pod %s: %w", req, err)
	}
	n.reported.Delete(req)
	log.FromContext(ctx).V(1).Info("Opened gate", "reason", decision.Reason, "message", decision.Message)
	return nil
}

// plan gathers the facts about the pod's node, and decides.
func (n *Nominator) plan(ctx context.Context, pod *corev1.Pod) (pin.GateDecision, error) {
	in := pin.GateInput{Pod: pod, Now: n.Clock.Now()}
	age := in.Now.Sub(pod.CreationTimestamp.Time)
	if wait := followerDelay - age; !cluster.Leads(n.Elected) && wait > 0 {
		return pin.GateDecision{Again: wait}, nil
	}
	in.Untried = n.untriedSince(pod, in.Now)
	if !pin.Gated(pod) || pod.Annotations[pin.AnnotationNode] == "" {
		return pin.PlanGate(in), nil
	}
	switch err := n.addHomes(ctx, &in); {
	case err != nil && age < conflictRetry:
		return pin.GateDecision{}, fmt.Errorf("plan gate of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	case err != nil:
		log.FromContext(ctx).Error(err, "Pod is scheduled without knowing its place")
	}
	if in.Asks() == "" {
		return pin.PlanGate(in), nil
	}
	var err error
	if in.Node, err = cluster.Node(ctx, n.Client, in.Asks()); err != nil {
		return pin.GateDecision{}, fmt.Errorf("plan gate of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	if in.Node == nil {
		return pin.PlanGate(in), nil
	}
	if in.Silent, err = n.Leases.Overdue(ctx, in.Node.Name); err != nil {
		log.FromContext(ctx).Error(err, "Pod is scheduled without knowing whether its node is alive") // which is no reason to keep it waiting
	}
	if in.Silent || in.Pauses() {
		in.Alone = n.aloneSince(pod, in.Now)
	}
	return n.promises.plan(ctx, n.Client, in)
}

// untriedSince returns since when a pod waits for a scheduler that may not exist. It is
// called once more after the wait, so that nothing is remembered of pods that have gone on.
func (n *Nominator) untriedSince(pod *corev1.Pod, now time.Time) time.Time {
	req := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}
	if !pin.Untried(pod) {
		n.untried.Delete(req)
		return time.Time{}
	}
	known, found := n.untried.LoadOrStore(req, wait{pod.UID, now})
	if first := known.(wait); found && first.pod == pod.UID {
		return first.since
	}
	n.untried.Store(req, wait{pod.UID, now})
	return now
}

// aloneSince returns since when a pod waits for a silent node behind no other gate; zero for a
// pod that never had another gate. The opening of a gate is a change of the pod's spec, and so of
// its generation. What is remembered is removed when the pod is seen again, which is soon.
func (n *Nominator) aloneSince(pod *corev1.Pod, now time.Time) time.Time {
	if pod.Generation == 1 {
		return time.Time{}
	}
	req := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}
	known, found := n.alone.LoadOrStore(req, wait{pod.UID, now})
	if first := known.(wait); found && first.pod == pod.UID {
		return first.since
	}
	n.alone.Store(req, wait{pod.UID, now})
	return now
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
// gate, and tells whether it did. A conflict or a missing answer is no refusal.
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
