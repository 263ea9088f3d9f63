package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// kubelets do what the kubelets and the agents of some nodes do: they run pods, keep the addresses of those that ask for
// it for their successors, and let pods that were deleted end.
type kubelets struct {
	nodes     map[string]types.UID
	addresses map[string]string // by namespace, pod and node
}

// startKubelets runs the kubelets of nodes until the test ends.
func startKubelets(t *testing.T, nodes ...*corev1.Node) {
	t.Helper()
	k := &kubelets{nodes: map[string]types.UID{}, addresses: map[string]string{}}
	for _, n := range nodes {
		k.nodes[n.Name] = n.UID
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var last error
	var all sync.WaitGroup
	all.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			last = k.sync(ctx)
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	t.Cleanup(func() {
		stop()
		if all.Wait(); t.Failed() {
			t.Log("last round of the kubelets:", last)
		}
	})
}

// sync looks at each pod once. What fails is tried again.
func (k *kubelets) sync(ctx context.Context) error {
	var list corev1.PodList
	if err := env.Client.List(ctx, &list); err != nil {
		return err
	}
	var errs []error
	for i := range list.Items {
		pod := &list.Items[i]
		switch _, mine := k.nodes[pod.Spec.NodeName]; {
		case !mine:
		case pod.DeletionTimestamp != nil:
			errs = append(errs, k.end(ctx, pod))
		case pod.Status.Phase != corev1.PodRunning:
			errs = append(errs, k.run(ctx, pod))
		}
	}
	return errors.Join(errs...)
}

// run makes a pod Ready, with the addresses that are kept for it.
func (k *kubelets) run(ctx context.Context, pod *corev1.Pod) error {
	key := pod.Namespace + "/" + pod.Name + "/" + pod.Spec.NodeName
	if k.addresses[key] == "" {
		n := len(k.addresses) + 1
		k.addresses[key] = fmt.Sprintf("10.1.%d.%d", n/250, n%250+1)
	}
	now := metav1.NewTime(time.Now())
	placed := pod.Status.Conditions
	pod.Status = testenv.Pod{Pod: pod}.At(k.addresses[key]).Ready().Status
	pod.Status.StartTime, pod.Status.Conditions[0].LastTransitionTime = &now, now
	pod.Status.Conditions = append(pod.Status.Conditions, placed...)
	if err := env.Client.Status().Update(ctx, pod); err != nil {
		return err
	}
	return client.IgnoreNotFound(env.Client.Delete(ctx, testenv.AReservation(pod, now.Time)))
}

// end removes a pod that was deleted, and shows its addresses as reserved where it asks for that.
func (k *kubelets) end(ctx context.Context, pod *corev1.Pod) error {
	if _, asks := pod.Annotations[reservation.RetainAnnotation]; asks && len(pod.Status.PodIPs) > 0 {
		kept := testenv.AReservation(pod, time.Now())
		kept.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: pod.Spec.NodeName, UID: k.nodes[pod.Spec.NodeName]}}
		if err := env.Client.Create(ctx, kept); client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}
	err := env.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	return client.IgnoreNotFound(err)
}
