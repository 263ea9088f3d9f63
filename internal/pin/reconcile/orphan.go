package reconcile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
)

// orphans remembers since when PersistentPodStates are gone whose pods still wait. Only
// memory holds that: a new leader counts from zero, and so releases such pods later, not
// earlier.
type orphans struct {
	since sync.Map // time.Time by the key of a PersistentPodState
}

// forget drops what is remembered of a PersistentPodState that exists again.
func (o *orphans) forget(req ctrl.Request) { o.since.Delete(req) }

// release releases the pods that wait for a place which a deleted PersistentPodState
// required.
func (o *orphans) release(ctx context.Context, req ctrl.Request, c client.Reader, now time.Time, r releaser) (ctrl.Result, error) {
	in := pin.OrphanInput{State: req.Name, Now: now}
	var err error
	if in.Pods, err = orphansOf(ctx, c, req); err != nil {
		return ctrl.Result{}, err
	}
	if len(in.Pods) == 0 {
		o.forget(req)
		return ctrl.Result{}, nil
	}
	if since, known := o.since.LoadOrStore(req, in.Now); known {
		in.Since = since.(time.Time)
	}
	waits, again := pin.Orphans(in)
	for _, w := range waits {
		err = errors.Join(err, r.release(ctx, ownerOf(w.Pod), []pin.Wait{w}))
	}
	return ctrl.Result{RequeueAfter: again}, err
}

// orphansOf returns the pods that a PersistentPodState made wait, and whose owner is the
// target of no other one.
func orphansOf(ctx context.Context, c client.Reader, req ctrl.Request) ([]corev1.Pod, error) {
	var pinned corev1.PodList
	err := c.List(ctx, &pinned, client.InNamespace(req.Namespace),
		client.MatchingFields{indexPinned: req.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list pods that wait by PersistentPodState %s: %w", req, err)
	}
	var found []corev1.Pod
	for i := range pinned.Items {
		owner, _ := workload.OwnerOf(&pinned.Items[i])
		states, err := cluster.StatesOf(ctx, c, req.Namespace, owner)
		if err != nil {
			return nil, err
		}
		if len(states) == 0 {
			found = append(found, pinned.Items[i])
		}
	}
	return found, nil
}

// ownerOf refers to the workload of a pod. Events of orphans go there, since their
// PersistentPodState is gone.
func ownerOf(pod *corev1.Pod) *corev1.ObjectReference {
	owner := metav1.GetControllerOfNoCopy(pod)
	return &corev1.ObjectReference{
		APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: pod.Namespace, Name: owner.Name, UID: owner.UID,
	}
}
