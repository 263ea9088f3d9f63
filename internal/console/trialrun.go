package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

const (
	// trialPeriod is the time between two looks at the pod.
	trialPeriod = 250 * time.Millisecond
	// frameTimeout bounds the creation and the removal of the namespace, which Ctrl-C does not cut off.
	frameTimeout = 30 * time.Second
)

// Trial is an end-to-end check of an installation in a namespace of its own.
type Trial struct {
	Client client.Client
	Now    func() time.Time
	// Namespace is made, and removed at the end. It must not exist.
	Namespace string
	// Image of the pod; empty for the pause image that most nodes have.
	Image   string
	Timeout time.Duration
	// Keep leaves the namespace.
	Keep bool
	// Told is called after each step.
	Told func(TrialStep)

	report TrialReport
}

// Run makes a pod, deletes it when it is Ready, and compares the next one with it. The namespace is removed whatever happens.
func (t *Trial) Run(ctx context.Context) (report TrialReport, err error) {
	t.report = TrialReport{Namespace: t.Namespace, Image: t.Image, Steps: []TrialStep{}}
	began := t.Now()
	if t.Image == "" {
		var nodes corev1.NodeList
		if err := t.Client.List(ctx, &nodes); err != nil && !apierrors.IsForbidden(err) {
			return t.report, fmt.Errorf("list nodes: %w", err)
		}
		t.report.Image = pauseImage(nodes.Items)
	}
	if err := t.step("namespace "+t.Namespace+" is made", func() error { return t.begin(ctx) }); err != nil {
		return t.report, err
	}
	defer func() {
		err = errors.Join(err, t.end(ctx))
		t.report.Seconds = t.Now().Sub(began).Round(100 * time.Millisecond).Seconds()
		report = t.report
	}()
	bounded, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	return t.report, t.rebuild(bounded)
}

// rebuild does what the check is about.
func (t *Trial) rebuild(ctx context.Context) error {
	var first *corev1.Pod
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"a StatefulSet of one replica is made", func() error { return t.Client.Create(ctx, trialWorkload(t.Namespace, t.report.Image)) }},
		{"its pod is Ready", func() (err error) { first, t.report.From, err = t.ready(ctx, ""); return err }},
		{"limpet-controller has recorded it", func() error { return t.recorded(ctx, first.UID) }},
		{"the pod is deleted", func() error { return t.Client.Delete(ctx, first, client.Preconditions{UID: &first.UID}) }},
		{"the next pod is Ready", func() (err error) { _, t.report.To, err = t.ready(ctx, first.UID); return err }},
	} {
		err := t.step(step.what, step.do)
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("the time of the check, --timeout %s, is over: %w", t.Timeout, cmp.Or(err, ctx.Err()))
		} else if err != nil {
			return err
		}
	}
	f, err := t.facts(ctx)
	if err == nil {
		t.report.judge(f)
	}
	return err
}

// step runs a step, and tells how long it took.
func (t *Trial) step(what string, do func() error) error {
	began := t.Now()
	err := do()
	done := TrialStep{what, t.Now().Sub(began).Round(100 * time.Millisecond).Seconds()}
	if err != nil {
		return fmt.Errorf("after %.1f s, waiting until %s: %w", done.Seconds, what, err)
	}
	t.report.Steps = append(t.report.Steps, done)
	t.Told(done)
	return nil
}

// begin makes the namespace. Ctrl-C does not cut the request off: else it is unknown whether there is something to remove.
func (t *Trial) begin(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), frameTimeout)
	defer cancel()
	err := t.Client.Create(bounded, trialNamespace(t.Namespace))
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; remedy: the check needs the rights of cluster-admin", err)
	}
	return err
}

// end removes the namespace with everything in it.
func (t *Trial) end(ctx context.Context) error {
	if t.Keep {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), frameTimeout)
	defer cancel()
	err := t.step("the namespace is removed", func() error {
		return client.IgnoreNotFound(t.Client.Delete(ctx, trialNamespace(t.Namespace)))
	})
	if err != nil {
		return fmt.Errorf("%w; next: kubectl delete namespace %s", err, t.Namespace)
	}
	return nil
}

// ready waits until the pod, other than one that was there before, is Ready, and returns its place.
func (t *Trial) ready(ctx context.Context, before types.UID) (*corev1.Pod, appsv1beta1.Place, error) {
	var pod corev1.Pod
	err := t.await(ctx, func(ctx context.Context) (bool, error) {
		err := t.Client.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: trialPod}, &pod)
		return err == nil && pod.UID != before && workload.Ready(&pod), client.IgnoreNotFound(err)
	})
	return &pod, appsv1beta1.Place{NodeName: pod.Spec.NodeName, IPs: pin.Addresses(&pod)}, err
}

// recorded waits until a PersistentPodState has the place of the pod.
func (t *Trial) recorded(ctx context.Context, uid types.UID) error {
	return t.await(ctx, func(ctx context.Context) (bool, error) {
		var states appsv1beta1.PersistentPodStateList
		err := t.Client.List(ctx, &states, client.InNamespace(t.Namespace))
		if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			return false, fmt.Errorf("%w; next: kubectl limpet status", err)
		}
		for i := range states.Items {
			if states.Items[i].Status.PodStates[trialPod].UID == uid {
				return true, nil
			}
		}
		return false, client.IgnoreNotFound(err)
	})
}

// await looks until it is so. When the time is over, it says what the objects tell.
func (t *Trial) await(ctx context.Context, so func(context.Context) (bool, error)) error {
	err := wait.PollUntilContextCancel(ctx, trialPeriod, true, so)
	switch {
	case err == nil:
		return nil
	case errors.Is(context.Cause(ctx), context.Canceled):
		return errors.New("interrupted")
	case !wait.Interrupted(err) && ctx.Err() == nil:
		return err
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), frameTimeout)
	defer cancel()
	return fmt.Errorf("%s; next: kubectl limpet status, then kubectl limpet test --keep and kubectl limpet explain NAMESPACE/%s", t.stuck(bounded), trialPod)
}

// stuck says what keeps the pod.
func (t *Trial) stuck(ctx context.Context) string {
	f, err := t.facts(ctx)
	if err != nil {
		return err.Error()
	}
	pod := f.Pod(t.Namespace, trialPod)
	if pod == nil {
		return "there is no pod " + trialPod + t.warned(ctx)
	}
	e := Pending(f, pod)
	return strings.Join(append([]string{e.Answer}, e.Because...), "; ") + t.warned(ctx)
}

// warned returns the newest warning in the namespace: of the kubelet, the runtime, or what refuses the pod.
func (t *Trial) warned(ctx context.Context) string {
	var events corev1.EventList
	if err := t.Client.List(ctx, &events, client.InNamespace(t.Namespace)); err != nil {
		return ""
	}
	all := slices.DeleteFunc(events.Items, func(e corev1.Event) bool { return e.Type != corev1.EventTypeWarning })
	if len(all) == 0 {
		return ""
	}
	newest := slices.MaxFunc(all, func(a, b corev1.Event) int { return TimeOf(&a).Compare(TimeOf(&b)) })
	return fmt.Sprintf("; %s: %s", newest.Reason, newest.Message)
}

// facts reads the namespace of the trial.
func (t *Trial) facts(ctx context.Context) (*facts.Facts, error) {
	return facts.Reader{Client: t.Client, Now: t.Now}.Read(ctx, t.Namespace, HistoryParts...)
}
