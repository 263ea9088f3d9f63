package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget/disruption"
	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	"github.com/limpet-io/limpet/test/bench/bed"
	"github.com/limpet-io/limpet/test/bench/measure"
)

// service is a ReplicaSet with its pods.
type service struct {
	set  *appsv1.ReplicaSet
	pods int
}

// pod is the i-th pod, as its ReplicaSet makes it. It is bound to no node, so that an eviction ends
// it at once.
func (s *service) pod(i int) *corev1.Pod {
	pod := testenv.APod(fmt.Sprintf("%s-%d", s.set.Name, i%s.pods)).In(s.set.Namespace).Pod
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(s.set, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	pod.Labels = s.set.Spec.Selector.MatchLabels
	return pod
}

// build makes all services, their budgets, and the relay.
func (g *guarding) build(ctx context.Context, _ *budgetReport) (err error) {
	if g.one, err = g.deploy(ctx, "one", g.size.pods, g.size.units); err != nil {
		return err
	}
	for i := range g.size.budgets {
		pods := g.size.each(g.size.budgets)
		s, err := g.deploy(ctx, fmt.Sprint("many-", i), pods, pods)
		if err != nil {
			return err
		}
		g.many = append(g.many, s)
	}
	pods := g.size.each(kindsOfPeers)
	for _, most := range []int{withBudget: pods, withPDB: 0, withNeither: 0, deleted: 0} {
		s, err := g.deploy(ctx, fmt.Sprint("peer-", len(g.peers)), pods, most)
		if err != nil {
			return err
		}
		g.peers = append(g.peers, s)
	}
	return g.watchGuard(ctx)
}

// deploy makes a service in a namespace of its own, with a budget if some pods may be unavailable.
func (g *guarding) deploy(ctx context.Context, ns string, pods, most int) (*service, error) {
	template := testenv.AStatefulSet("web", int32(pods))
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web-5d4f8c7b6"}}
	set.Spec.Replicas, set.Spec.Selector, set.Spec.Template = template.Spec.Replicas, template.Spec.Selector, template.Spec.Template
	if err := g.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
		return nil, fmt.Errorf("make namespace: %w", err)
	}
	if err := g.Client.Create(ctx, set); err != nil {
		return nil, fmt.Errorf("make ReplicaSet: %w", err)
	}
	if most > 0 {
		pub := &policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}}
		pub.Spec.Selector, pub.Spec.MaxUnavailable = set.Spec.Selector, new(intstr.FromInt32(int32(most)))
		if err := g.Client.Create(ctx, pub); err != nil {
			return nil, fmt.Errorf("make budget: %w", err)
		}
	}
	s := &service{set: set, pods: pods}
	return s, g.parallel(ctx, hands, pods, func(ctx context.Context, i int) error { return g.bringUp(ctx, s.pod(i)) })
}

// bringUp makes a pod that is Ready. A pod that was evicted again meanwhile comes back later.
func (g *guarding) bringUp(ctx context.Context, pod *corev1.Pod) error {
	err := g.Client.Create(ctx, pod)
	if err == nil {
		_, err = g.becomeReady(ctx, pod)
	}
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// watchGuard sends the questions of the API server through the relay, and waits until the guard
// answers one of each budget.
func (g *guarding) watchGuard(ctx context.Context) (err error) {
	if g.relay, err = g.startRelay(ctx); err != nil {
		return err
	}
	g.relay.only = disruption.GuardPath
	if err := g.pointWebhooks(ctx, g.relay.port); err != nil {
		return err
	}
	for _, s := range append(g.many, g.one, g.peers[0]) {
		if err := poll(ctx, func(ctx context.Context) error {
			g.relay.take()
			passes, err := g.evict(ctx, s.pod(0), true)
			if err == nil && !passes {
				return fmt.Errorf("%w: pods of %s are not known yet", bed.ErrNotReady, s.set.Namespace)
			}
			return errors.Join(err, g.relay.used(ctx))
		}); err != nil {
			return err
		}
	}
	return nil
}

// bringBack makes an evicted pod again after a while.
func (g *guarding) bringBack(ctx context.Context, pod *corev1.Pod) {
	time.Sleep(g.size.back)
	if err := g.bringUp(ctx, pod); err != nil {
		g.progress(fmt.Sprintf("bring pod back: %v", err))
	}
}

// ask evicts a pod of a service, and returns how long the whole eviction took.
func (g *guarding) ask(ctx context.Context, s *service, i int) (passed bool, took time.Duration, err error) {
	begin := time.Now()
	passed, err = g.evict(ctx, s.pod(i), false)
	return passed, time.Since(begin), err
}

// delete deletes a pod of a service, and returns how long that took.
func (g *guarding) delete(ctx context.Context, s *service, i int) (passed bool, took time.Duration, err error) {
	begin := time.Now()
	err = g.Client.Delete(ctx, s.pod(i))
	return err == nil, time.Since(begin), err
}

// evict reports whether an eviction passed. A pod that is not back yet did not pass.
func (g *guarding) evict(ctx context.Context, pod *corev1.Pod, dry bool) (passed bool, err error) {
	e := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{}}
	if dry {
		e.DeleteOptions.DryRun = []string{metav1.DryRunAll}
	}
	switch err := g.Client.SubResource("eviction").Create(ctx, pod, e); {
	case err == nil:
		return true, nil
	case apierrors.IsTooManyRequests(err), apierrors.IsNotFound(err):
		return false, nil
	default:
		return false, fmt.Errorf("evict pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
}

// compare evicts pods with a budget, with a PodDisruptionBudget and with neither in turns, and
// deletes others. The relay stands aside.
func (g *guarding) compare(ctx context.Context, r *budgetReport) error {
	g.relay.stop()
	if err := g.pointWebhooks(ctx, g.controlled.WebhookPort); err != nil {
		return err
	}
	end, err := g.keepPDB(ctx, g.peers[1])
	if err != nil {
		return err
	}
	r.evictions = make([]measure.Sample, len(g.peers))
	var mu sync.Mutex
	_, err = g.steadily(ctx, g.size.rate, g.size.few(), func(ctx context.Context, i int) error {
		kind := i % len(g.peers)
		ask := g.ask
		if kind == deleted {
			ask = g.delete
		}
		passed, took, err := ask(ctx, g.peers[kind], i/len(g.peers))
		if !passed {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		r.evictions[kind] = append(r.evictions[kind], took)
		return err
	})
	return errors.Join(err, end())
}
