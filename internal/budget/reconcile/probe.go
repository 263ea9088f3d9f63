package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/platform/fair"
	"github.com/limpet-io/limpet/internal/platform/mark"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

const (
	probeAgain = time.Minute            // after an answer of the guard
	probeSoon  = 5 * time.Second        // after anything else
	probeShare = 100 * time.Millisecond // for each namespace: ten probes a second in all
	probeWait  = 10 * time.Second       // the longest wait for an answer
	probesFail = 2                      // answers without the guard in a row
)

// mostProbed is how many namespaces are remembered.
var mostProbed = fair.Bounds{All: 10_000}

// Prober learns whether the API server asks the guard about the pods of a namespace. It sends
// a dry run of an eviction, which the guard refuses with a cause of its own. The API server asks
// its webhooks before it looks for the pod, and there is none.
type Prober struct {
	// Client sends probes. Its reads come from the cache.
	Client client.Client
	// Live reads the webhook configuration, which is not cached.
	Live client.Reader
	// Configuration is the name of the ValidatingWebhookConfiguration.
	Configuration string

	probed fair.Memory[struct{}, probed]
	wanted fair.Memory[struct{}, wanted]

	mu     sync.Mutex
	config configuration
}

// wanted is the label that the budgets of a namespace need. It is read once a second for all
// of them.
type wanted struct {
	label string
	at    time.Time
}

// probed is the last answer in a namespace.
type probed struct {
	probe
	label string
	until time.Time
	inRow int // answers without the guard
}

// state returns what is known of the guard of a namespace. It sends a request only if the last
// answer is old, or the label of the namespace has changed.
func (p *Prober) state(ctx context.Context, namespace string, now time.Time) (guardState, error) {
	var ns corev1.Namespace
	switch err := p.Client.Get(ctx, client.ObjectKey{Name: namespace}, &ns, client.UnsafeDisableDeepCopy); {
	case apierrors.IsNotFound(err): // its budgets go next
		return guardState{ending: true}, nil
	case err != nil:
		return guardState{}, fmt.Errorf("get namespace %s: %w", namespace, err)
	}
	wanted, err := p.wants(ctx, namespace, now)
	if err != nil {
		return guardState{}, err
	}
	s := guardState{label: ns.Labels[policyv1beta1.LabelBudgets], wanted: wanted, ending: ns.DeletionTimestamp != nil}
	configuration, err := p.configuration(ctx, now)
	if err != nil {
		return s, err
	}
	s.missing, s.lacks = configuration.lacks(mark.Budgets.With(ns.Labels, s.wanted)) // another condition tells of a wrong label
	if s.label != "" && !s.ending {
		s.probe = p.last(ctx, namespace, s.label, now)
	}
	return s, nil
}

// wants returns the label that the budgets of a namespace need.
func (p *Prober) wants(ctx context.Context, namespace string, now time.Time) (string, error) {
	if known, ok := p.wanted.Get(namespace, struct{}{}); ok && now.Sub(known.at).Abs() < pause {
		return known.label, nil
	}
	budgets, err := budgetsOf(ctx, p.Client, namespace, client.UnsafeDisableDeepCopy)
	if err != nil {
		return "", err
	}
	label := wantedOf(budgets, false, false)
	p.wanted.Put(mostProbed, namespace, struct{}{}, wanted{label, now})
	return label, nil
}

// last returns the last answer in a namespace, or a new one.
func (p *Prober) last(ctx context.Context, namespace, label string, now time.Time) probe {
	known, _ := p.probed.Get(namespace, struct{}{})
	if known.label != label {
		known = probed{label: label}
	}
	if now.Before(known.until) {
		return known.probe
	}
	answer := p.send(ctx, namespace, now)
	known = known.next(answer, now, time.Duration(p.probed.Len())*probeShare)
	p.probed.Put(mostProbed, namespace, struct{}{}, known)
	return known.probe
}

// again makes the next state send a probe, because the last answer may be out of date.
func (p *Prober) again(namespace string) {
	if known, ok := p.probed.Get(namespace, struct{}{}); ok {
		known.until = time.Time{}
		p.probed.Put(mostProbed, namespace, struct{}{}, known)
	}
}

// next is what is known after a further answer. One answer without the guard proves nothing:
// the API server may learn of a label late, and a replica of the controller may just end.
// least is the shortest time between two probes of the namespace.
func (k probed) next(answer probe, now time.Time, least time.Duration) probed {
	k.until = now.Add(max(probeSoon, least))
	switch {
	case !answer.called.IsZero():
		k.probe, k.inRow, k.until = answer, 0, now.Add(max(probeAgain, least))
	case answer.failed:
		k.inRow++
		k.message, k.failed = answer.message, k.failed || k.inRow >= probesFail
	default:
		k.message = answer.message
	}
	return k
}

// send sends one probe.
func (p *Prober) send(ctx context.Context, namespace string, now time.Time) probe {
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: disruption.ProbeName}}
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: namespace, Name: disruption.ProbeName},
		DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
	}
	return answerOf(p.Client.SubResource("eviction").Create(ctx, pod, eviction, client.DryRunAll), now)
}

// answerOf reads the API server's answer to a probe.
func answerOf(err error, now time.Time) probe {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return probe{failed: true, message: fmt.Sprintf("pod %s could have been evicted", disruption.ProbeName)}
	case !errors.As(err, &status): // the API server did not answer
		return probe{message: err.Error()}
	case answered(status.Status()):
		return probe{called: now}
	case apierrors.IsForbidden(err), apierrors.IsServerTimeout(err), apierrors.IsUnauthorized(err),
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return probe{message: err.Error()}
	case apierrors.IsNotFound(err):
		return probe{failed: true, message: "it looked for the pod"}
	}
	return probe{failed: true, message: err.Error()}
}

// answered reports whether an answer has the cause that only the guard gives.
func answered(status metav1.Status) bool {
	return status.Details != nil && slices.ContainsFunc(status.Details.Causes, func(c metav1.StatusCause) bool {
		return c.Type == disruption.CauseProbe
	})
}
