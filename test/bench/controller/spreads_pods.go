package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/creation"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/test/bench/bed"
)

// crowd is the pods of one ReplicaSet, by subset.
type crowd struct {
	client client.Client
	set    *appsv1.ReplicaSet

	mu     sync.Mutex
	pods   map[string][]*corev1.Pod
	failed int            // creations that were refused and tried again
	why    map[string]int // causes of refusals, and how often
}

// noticed is how long a ReplicaSet controller takes to hear that a pod is gone.
const noticed = 30 * time.Millisecond

var errNoPod = errors.New("no pod is left")

// relaySpreads sends the questions about the pods of spreads through a relay.
func (g *spreading) relaySpreads(ctx context.Context) (*relay, error) {
	r, err := g.startRelay(ctx)
	if err != nil {
		return nil, err
	}
	r.only = creation.SpreadPath
	return r, g.pointWebhooks(ctx, r.port)
}

// gather makes a ReplicaSet of a Deployment in a namespace of its own, with a spread if asked, and
// no pods.
func (g *spreading) gather(ctx context.Context, ns string, pods int, spread bool) (*crowd, error) {
	template := testenv.AStatefulSet("web", int32(pods)).In(ns)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
	d.Spec.Replicas, d.Spec.Selector, d.Spec.Template = new(int32(pods)), template.Spec.Selector, template.Spec.Template
	if err := errors.Join(g.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}), g.Client.Create(ctx, d)); err != nil {
		return nil, fmt.Errorf("make Deployment: %w", err)
	}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-5d4f8c7b6", OwnerReferences: []metav1.OwnerReference{
		*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment")),
	}}}
	set.Spec.Replicas, set.Spec.Selector, set.Spec.Template = d.Spec.Replicas, d.Spec.Selector, d.Spec.Template
	if err := g.Client.Create(ctx, set); err != nil {
		return nil, fmt.Errorf("make ReplicaSet: %w", err)
	}
	c := &crowd{client: g.Client, set: set, pods: map[string][]*corev1.Pod{}}
	if !spread {
		return c, nil
	}
	if err := g.Client.Create(ctx, g.spreadOver(set, g.size.limit(pods))); err != nil {
		return nil, fmt.Errorf("make spread: %w", err)
	}
	return c, poll(ctx, func(ctx context.Context) error {
		g.relay.take()
		return errors.Join(g.Client.Create(ctx, c.pod(), client.DryRunAll), g.relay.used(ctx))
	})
}

// spreadOver divides the pods of a Deployment over three zones, of which the last has no maximum.
func (g *spreading) spreadOver(set *appsv1.ReplicaSet, limit int) *appsv1beta1.WorkloadSpread {
	ws := &appsv1beta1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: "web"}}
	ws.Spec.TargetReference = appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	for _, zone := range []string{"a", "b", "c"} {
		subset := appsv1beta1.WorkloadSpreadSubset{Name: zone, RequiredNodeSelector: &corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
		}}
		if zone != "c" {
			subset.MaxReplicas = new(intstr.FromInt32(int32(limit)))
		}
		ws.Spec.Subsets = append(ws.Spec.Subsets, subset)
	}
	return ws
}

// pod is a further pod, as its ReplicaSet makes it.
func (c *crowd) pod() *corev1.Pod {
	pod := testenv.APod("").In(c.set.Namespace).Pod
	pod.GenerateName, pod.Labels = c.set.Name+"-", c.set.Spec.Selector.MatchLabels
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(c.set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	bed.Furnish(&pod.Spec)
	return pod
}

func subsetOf(pod *corev1.Pod) string {
	match, err := appsv1beta1.ParseMatch(pod.Annotations[appsv1beta1.AnnotationMatchedSpread])
	if err != nil {
		return ""
	}
	return match.Subset
}

// grow creates a pod.
func (c *crowd) grow(ctx context.Context) error {
	pod, again, err := c.create(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed += again
	c.pods[subsetOf(pod)] = append(c.pods[subsetOf(pod)], pod)
	return nil
}

// create creates a pod, as a ReplicaSet controller does: a creation that is refused is tried again.
func (c *crowd) create(ctx context.Context) (pod *corev1.Pod, again int, err error) {
	for {
		pod = c.pod()
		err = c.client.Create(ctx, pod)
		if err == nil || again == mostTries || !apierrors.IsServiceUnavailable(err) && !apierrors.IsInternalError(err) {
			break
		}
		again++
		c.refused(err)
	}
	if err != nil {
		return nil, again, fmt.Errorf("create pod: %w", err)
	}
	return pod, again, nil
}

const mostTries = 20

// refused counts a refusal by its cause, which is the end of the text.
func (c *crowd) refused(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := err.Error()
	if at := strings.LastIndex(text, ": "); at >= 0 {
		text = text[at+2:]
	}
	if c.why == nil {
		c.why = map[string]int{}
	}
	if _, known := c.why[text]; known || len(c.why) < mostCauses {
		c.why[text]++
	}
}

// mostCauses is how many causes of refusals are told apart.
const mostCauses = 5

// replace deletes the oldest pod of a subset and creates another one. It returns how long the
// creation took.
func (c *crowd) replace(ctx context.Context, subset string) (time.Duration, error) {
	c.mu.Lock()
	if len(c.pods[subset]) == 0 {
		c.mu.Unlock()
		return 0, fmt.Errorf("replace a pod of subset %q: %w", subset, errNoPod)
	}
	oldest := c.pods[subset][0]
	c.pods[subset] = c.pods[subset][1:]
	c.mu.Unlock()
	if err := c.client.Delete(ctx, oldest, client.GracePeriodSeconds(0)); err != nil {
		return 0, fmt.Errorf("delete pod: %w", err)
	}
	time.Sleep(noticed)
	begin := time.Now()
	err := c.grow(ctx)
	return time.Since(begin), err
}

// counts are the pods of each subset.
func (c *crowd) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[string]int{}
	for subset, pods := range c.pods {
		counts[subset] = len(pods)
	}
	return counts
}
