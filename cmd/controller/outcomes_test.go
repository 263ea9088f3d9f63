package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Shapes of the set of a play.

func required(p *play) {
	delete(p.set.Annotations, appsv1beta1.AnnotationPreferredTopology)
	p.set.With(appsv1beta1.AnnotationRequiredTopology, hostname)
}

func releasedSoon(p *play) {
	required(p)
	p.set.With(pin.AnnotationReleaseAfter, "3s")
}

func ordered(p *play) { p.set.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement }

func slowlyAvailable(p *play) {
	ordered(p)
	p.set.Spec.MinReadySeconds = 6
}

// spreadOut makes a set whose pods ask for nothing.
func spreadOut(p *play) { p.set.Annotations, p.set.Spec.Template.Annotations = nil, nil }

// What happens.

func deleted(pod string) func(*testing.T, *play) {
	return func(t *testing.T, p *play) {
		t.Helper()
		p.delete(t, pod)
		p.gone(t, pod)
	}
}

func (p *play) delete(t *testing.T, pod string) {
	t.Helper()
	if err := env.Client.Delete(t.Context(), testenv.APod(pod).In(p.set.Namespace).Pod); err != nil {
		t.Fatal(err)
	}
}

// deletedBelow deletes a pod while a higher one is not Ready.
func deletedBelow(pod, higher string) func(*testing.T, *play) {
	return func(t *testing.T, p *play) {
		t.Helper()
		other := testenv.APod(higher).In(p.set.Namespace).Pod
		env.Read(t, client.ObjectKeyFromObject(other), other)
		env.ChangeStatus(t, other, func() { other.Status.Conditions[0].Status = corev1.ConditionFalse })
		deleted(pod)(t, p)
	}
}

// drained deletes a pod whose node was cordoned.
func drained(pod string) func(*testing.T, *play) {
	return func(t *testing.T, p *play) {
		t.Helper()
		env.Cordon(t, p.node(pod))
		p.delete(t, pod)
	}
}

func rolledOut(t *testing.T, p *play) {
	t.Helper()
	env.Patch(t, p.set.StatefulSet, `{"spec":{"template":{"metadata":{"annotations":{"example.com/restarted":"yes"}}}}}`)
}

func scaledToNone(t *testing.T, p *play) {
	t.Helper()
	env.Patch(t, p.set.StatefulSet, `{"spec":{"replicas":0}}`)
	p.allGone(t)
	env.Patch(t, p.set.StatefulSet, `{"spec":{"replicas":3}}`)
}

func (p *play) allGone(t *testing.T) {
	t.Helper()
	for pod := range p.before {
		p.gone(t, pod)
	}
}

// blockedByQuota deletes a pod while a quota has no room for the next one, until that was refused.
func blockedByQuota(pod string) func(*testing.T, *play) {
	return func(t *testing.T, p *play) {
		t.Helper()
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: p.set.Namespace, Name: "pods"}}
		quota.Spec.Hard = corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(2, resource.DecimalSI)}
		env.Create(t, quota)
		testenv.Eventually(t, func() error {
			if env.Read(t, client.ObjectKeyFromObject(quota), quota); len(quota.Status.Hard) == 0 {
				return fmt.Errorf("status of the quota: %+v", quota.Status)
			}
			return nil
		})
		deleted(pod)(t, p)
		p.refusals(t, 5)
		env.Remove(t, quota)
	}
}

func deletedSet(propagation metav1.DeletionPropagation) func(*testing.T, *play) {
	return func(t *testing.T, p *play) {
		t.Helper()
		if err := env.Client.Delete(t.Context(), p.set.StatefulSet, client.PropagationPolicy(propagation)); err != nil {
			t.Fatal(err)
		}
		testenv.Eventually(t, func() error {
			err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.set.StatefulSet), &appsv1.StatefulSet{})
			if err == nil {
				err = fmt.Errorf("the set is there")
			}
			return client.IgnoreNotFound(err)
		})
	}
}

func appliedAgain(t *testing.T, p *play) {
	t.Helper()
	p.allGone(t)
	p.set.StatefulSet = p.applied.DeepCopy()
	env.Create(t, p.set.StatefulSet)
}

// orphaned deletes the set without its pods, and applies it again.
func orphaned(t *testing.T, p *play) {
	t.Helper()
	deletedSet(metav1.DeletePropagationOrphan)(t, p)
	p.set.StatefulSet = p.applied.DeepCopy()
	env.Create(t, p.set.StatefulSet)
}

// closed gives the set a spread, and waits until its namespace is closed, as it is by default.
func closed(t *testing.T, p *play) {
	t.Helper()
	env.Create(t, &appsv1beta1.WorkloadSpread{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.set.Namespace, Name: "web"},
		Spec: appsv1beta1.WorkloadSpreadSpec{
			TargetReference: appsv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: p.set.Name},
			Subsets:         []appsv1beta1.WorkloadSpreadSubset{{Name: "all"}},
		},
	})
	testenv.Eventually(t, func() error {
		var ns corev1.Namespace
		env.Read(t, client.ObjectKey{Name: p.set.Namespace}, &ns)
		if ns.Labels[appsv1beta1.LabelSpreads] != appsv1beta1.LabelSpreadsClosed {
			return fmt.Errorf("labels %v", ns.Labels)
		}
		return nil
	})
}

// What users see.

func both(one, other func(*testing.T, *play)) func(*testing.T, *play) {
	return func(t *testing.T, p *play) {
		t.Helper()
		one(t, p)
		other(t, p)
	}
}

// kept wants pods back on their nodes with their addresses, and counted so, and no other outcome.
func kept(pods ...string) func(*testing.T, *play) {
	return func(t *testing.T, p *play) {
		t.Helper()
		for _, name := range pods {
			before, now := p.before[name], p.ready(t, name, p.before[name].UID)
			if now.Spec.NodeName != before.Spec.NodeName || now.Status.PodIPs[0] != before.Status.PodIPs[0] {
				t.Errorf("%s is on %s with %v, and was on %s with %v", name, now.Spec.NodeName, now.Status.PodIPs, before.Spec.NodeName, before.Status.PodIPs)
			}
			p.outcome(t, name, appsv1beta1.Kept, "")
		}
		if r := env.MustState(t, p.set).Status.Rebuilds; r.Kept != int64(len(pods)) || r.Moved+r.Lost > 0 {
			t.Errorf("rebuilds %+v, want %d kept", r, len(pods))
		}
	}
}

func moved(pod, cause string) func(*testing.T, *play) {
	return func(t *testing.T, p *play) {
		t.Helper()
		now := p.ready(t, pod, p.before[pod].UID)
		if now.Spec.NodeName == p.before[pod].Spec.NodeName {
			t.Errorf("%s is on %s again", pod, now.Spec.NodeName)
		}
		p.outcome(t, pod, appsv1beta1.Moved, cause)
		env.Told(t, now, "Moved", p.before[pod].Spec.NodeName)
	}
}

// outcome waits for the outcome in the record of a pod.
func (p *play) outcome(t *testing.T, pod string, want appsv1beta1.Outcome, cause string) {
	t.Helper()
	testenv.Eventually(t, func() error {
		state, err := env.State(t, p.set)
		if got := state.Status.PodStates[pod]; err == nil && (got.Outcome != want || got.Cause != cause) {
			err = fmt.Errorf("outcome of %s: %+v, want %s by %q", pod, got, want, cause)
		}
		return err
	})
}

// waitsFor wants a pod to wait for its place, and back as soon as the node takes it.
func waitsFor(pod, reason string) func(*testing.T, *play) {
	return func(t *testing.T, p *play) {
		t.Helper()
		env.Condition(t, p.set, appsv1beta1.ConditionWaiting, metav1.ConditionTrue, reason, p.node(pod).Name)
		env.Patch(t, p.node(pod), `{"spec":{"unschedulable":null}}`)
		kept(pod)(t, p)
		testenv.Eventually(t, func() error {
			if env.HasCondition(t, p.set, appsv1beta1.ConditionWaiting, metav1.ConditionTrue, reason, "") == nil {
				return fmt.Errorf("%s waits", pod)
			}
			return nil
		})
	}
}

// woken wants a pod that was refused back, because its controller was woken.
func woken(pod string) func(*testing.T, *play) {
	return func(t *testing.T, p *play) {
		t.Helper()
		now := p.ready(t, pod, p.before[pod].UID)
		at, err := time.Parse(time.RFC3339, p.nudged(t))
		if err != nil || at.After(now.CreationTimestamp.Time) {
			t.Errorf("%s was created at %s, and its controller woken at %s: %v", pod, now.CreationTimestamp, at, err)
		}
	}
}

// notWoken wants that a controller which waits until a pod is available is left alone. Before and after, one on a busy machine
// may be woken.
func notWoken(t *testing.T, p *play) {
	text := p.nudged(t)
	if text == "" {
		return
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"web-0", "web-1"} { // for which the next one waits
		pod := p.before[name]
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
		ready := pod.Status.Conditions[i].LastTransitionTime.Time
		if at.After(ready) && at.Before(ready.Add(time.Duration(p.set.Spec.MinReadySeconds)*time.Second)) {
			t.Errorf("the controller was woken at %s, and %s was Ready at %s", at, name, ready)
		}
	}
}

func (p *play) nudged(t *testing.T) string {
	t.Helper()
	env.Read(t, client.ObjectKeyFromObject(p.set.StatefulSet), p.set.StatefulSet)
	return p.set.Annotations[workloads.AnnotationNudged]
}

// stayed wants the pods of before, and no rebuild counted.
func stayed(t *testing.T, p *play) {
	for name, before := range p.before {
		testenv.Eventually(t, func() error {
			var pod corev1.Pod
			env.Read(t, client.ObjectKeyFromObject(&before), &pod)
			if owner := metav1.GetControllerOf(&pod); pod.UID != before.UID || owner == nil || owner.UID != p.set.UID {
				return fmt.Errorf("%s %s is of %+v, want %s, adopted", name, pod.UID, owner, before.UID)
			}
			return nil
		})
	}
	if r := env.MustState(t, p.set).Status.Rebuilds; r != nil {
		t.Errorf("rebuilds %+v, want none", r)
	}
}
