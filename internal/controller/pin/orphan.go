package pin

import (
	"context"
	"fmt"
	"time"

	"github.com/limpet-io/limpet/internal/cluster"
	"github.com/limpet-io/limpet/pkg/workload"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/pkg/pin"
)

// releaseOrphans looks after pods that wait for a place which a PersistentPodState required
// that is gone. Since when it is gone is remembered here alone: a leader that does not
// know begins anew, and lets the pods go later rather than earlier.
func (r *Recorder) releaseOrphans(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	in := pin.OrphanInput{State: req.Name, Now: r.Clock.Now()}
	var err error
	if in.Pods, err = r.orphans(ctx, req); err != nil {
		return ctrl.Result{}, err
	}
	if len(in.Pods) == 0 {
		r.deserted.Delete(req)
		return ctrl.Result{}, nil
	}
	if since, known := r.deserted.LoadOrStore(req, in.Now); known {
		in.Since = since.(time.Time)
	}
	waits, again := pin.Orphans(in)
	for _, w := range waits {
		if err := r.attend(ctx, ownerOf(w.Pod), []pin.Wait{w}); err != nil {
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: again}, nil
}

// orphans are the pods that a PersistentPodState made wait, and that no other cares for.
func (r *Recorder) orphans(ctx context.Context, req ctrl.Request) ([]corev1.Pod, error) {
	var pinned corev1.PodList
	err := r.Client.List(ctx, &pinned, client.InNamespace(req.Namespace),
		client.MatchingFields{indexPinned: req.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list pods that wait by PersistentPodState %s: %w", req, err)
	}
	var orphans []corev1.Pod
	for i := range pinned.Items {
		owner, _ := workload.OwnerOf(&pinned.Items[i])
		states, err := cluster.StatesOf(ctx, r.Client, req.Namespace, owner)
		if err != nil {
			return nil, err
		}
		if len(states) == 0 {
			orphans = append(orphans, pinned.Items[i])
		}
	}
	return orphans, nil
}

// ownerOf refers to the workload of a pod, which a person looks at when nothing else of
// what happened is left.
func ownerOf(pod *corev1.Pod) *corev1.ObjectReference {
	owner := metav1.GetControllerOfNoCopy(pod)
	return &corev1.ObjectReference{
		APIVersion: owner.APIVersion, Kind: owner.Kind, Namespace: pod.Namespace, Name: owner.Name, UID: owner.UID,
	}
}
