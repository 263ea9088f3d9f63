package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	"github.com/limpet-io/limpet/test/bench/measure"
)

// service is a StatefulSet with its pods.
type service struct {
	set   *appsv1.StatefulSet
	pods  int
	asked atomic.Int64 // how many requests were made
}

// pod is the i-th pod, as its StatefulSet makes it. It is bound to no node, so that an eviction
// ends it at once.
func (s *service) pod(i int) *corev1.Pod {
	pod := testenv.APod(fmt.Sprintf("%s-%d", s.set.Name, i%s.pods)).In(s.set.Namespace).OwnedBy(s.set).Pod
	pod.Labels = map[string]string{"app": s.set.Name, appsv1.StatefulSetPodNameLabel: pod.Name}
	furnish(&pod.Spec)
	return pod
}

// build makes all services, their budgets, and the relay.
func (g *guarding) build(ctx context.Context, _ *budgetReport) (err error) {
	if g.one, err = g.deploy(ctx, "one", "web", g.size.pods, g.size.units); err != nil {
		return err
	}
	for i := range g.size.budgets {
		s, err := g.deploy(ctx, fmt.Sprint("many-", i), "web", g.size.some(), g.size.some()/2)
		if err != nil {
			return err
		}
		g.many = append(g.many, s)
	}
	for _, kind := range []string{"budget", "pdb", "neither"} {
		most := g.size.some() - 1
		if kind != "budget" {
			most = 0
		}
		s, err := g.deploy(ctx, "peer-"+kind, "web", 2*g.size.some(), most)
		if err != nil {
			return err
		}
		g.peers = append(g.peers, s)
	}
	return g.watchGuard(ctx)
}

// deploy makes a service, with a budget unless no pod of it is to be guarded.
func (g *guarding) deploy(ctx context.Context, ns, name string, pods, most int) (*service, error) {
	s := &service{set: testenv.AStatefulSet(name, int32(pods)).In(ns).StatefulSet, pods: pods}
	if err := g.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}); err != nil {
		return nil, fmt.Errorf("make namespace: %w", err)
	}
	if err := g.client.Create(ctx, s.set); err != nil {
		return nil, fmt.Errorf("make StatefulSet: %w", err)
	}
	if most > 0 {
		pub := &policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		pub.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
		pub.Spec.MaxUnavailable = new(intstr.FromInt32(int32(most)))
		if err := g.client.Create(ctx, pub); err != nil {
			return nil, fmt.Errorf("make budget: %w", err)
		}
	}
	return s, g.parallel(ctx, hands, pods, func(ctx context.Context, i int) error { return g.bringUp(ctx, s.pod(i)) })
}

// bringUp makes a pod that is Ready. A pod that was evicted again meanwhile comes back later.
func (g *guarding) bringUp(ctx context.Context, pod *corev1.Pod) error {
	err := g.client.Create(ctx, pod)
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
	if err := g.pointWebhooks(ctx, g.relay.port); err != nil {
		return err
	}
	for _, s := range append(g.many, g.one, g.peers[0]) {
		if err := poll(ctx, longestWait, func(ctx context.Context) error {
			g.relay.take()
			passes, err := g.evict(ctx, s.pod(0), true)
			if err == nil && !passes {
				return fmt.Errorf("%w: pods of %s are not known yet", errNotReady, s.set.Namespace)
			}
			return errors.Join(err, g.relay.used(ctx))
		}); err != nil {
			return err
		}
	}
	return nil
}

// press makes n requests at the rate. Evicted pods come back.
func (g *guarding) press(ctx context.Context, n int, of func(i int) *service) error {
	_, err := g.steadily(ctx, g.size.rate, n, func(ctx context.Context, i int) error {
		_, _, err := g.ask(ctx, of(i))
		return err
	})
	g.returns.Wait()
	return err
}

// ask evicts the next pod of a service, which comes back if it went. It returns how long the
// whole eviction took.
func (g *guarding) ask(ctx context.Context, s *service) (passed bool, took time.Duration, err error) {
	i := int(s.asked.Add(1))
	begin := time.Now()
	passed, err = g.evict(ctx, s.pod(i), false)
	took = time.Since(begin)
	if passed {
		g.returns.Go(func() {
			time.Sleep(g.size.back)
			if err := g.bringUp(ctx, s.pod(i)); err != nil {
				g.progress(fmt.Sprintf("bring pod back: %v", err))
			}
		})
	}
	return passed, took, err
}

// evict tells whether an eviction passed. A pod that is not back yet did not pass.
func (g *guarding) evict(ctx context.Context, pod *corev1.Pod, dry bool) (passed bool, err error) {
	e := &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{}}
	if dry {
		e.DeleteOptions.DryRun = []string{metav1.DryRunAll}
	}
	switch err := g.client.SubResource("eviction").Create(ctx, pod, e); {
	case err == nil:
		return true, nil
	case apierrors.IsTooManyRequests(err), apierrors.IsNotFound(err):
		return false, nil
	default:
		return false, fmt.Errorf("evict pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
}

// compare evicts pods with a budget, with a PodDisruptionBudget and with neither in turns. The
// relay stands aside.
func (g *guarding) compare(ctx context.Context, r *budgetReport) error {
	g.relay.stop()
	if err := g.pointWebhooks(ctx, g.controlled.webhookPort); err != nil {
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
		passed, took, err := g.ask(ctx, g.peers[kind])
		if !passed {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		r.evictions[kind] = append(r.evictions[kind], took)
		return err
	})
	g.returns.Wait()
	return errors.Join(err, end())
}
