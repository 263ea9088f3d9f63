package cluster

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/workload"
)

// OwnerChain is the need of a feature that selects the pods of any workload: pods of
// ReplicaSets and Jobs too, and the pods of a Deployment or CronJob above these.
func OwnerChain() Needs {
	return Needs{
		Objects: []Need{
			Of[*corev1.Pod](Owners), Of[*appsv1.ReplicaSet](Owners), Of[*batchv1.Job](Owners), Of[*appsv1.Deployment](Owners),
		},
		Indexes: []Index{
			By(indexOwner, ownerUID[*corev1.Pod]).InNamespace(), By(indexOwner, ownerUID[*appsv1.ReplicaSet]), By(indexOwner, ownerUID[*batchv1.Job]),
		},
	}
}

// longestOwner bounds each text of an owner reference: no object has a longer name, UID or kind.
// The API server does not bound them.
const longestOwner = 317

// Owners keeps the reference of an object to its controller. Users may write 1 MiB of others,
// which no feature reads.
func Owners[T client.Object](from, to T) {
	owner := metav1.GetControllerOf(from)
	if owner == nil || max(len(owner.APIVersion), len(owner.Kind), len(owner.Name), len(owner.UID)) > longestOwner {
		return
	}
	to.SetOwnerReferences([]metav1.OwnerReference{*owner})
}

func ownerUID[T client.Object](o T) []string {
	if owner, ok := workload.ControllerOf(o); ok {
		return []string{string(owner.UID)}
	}
	return nil
}

// ChainOf returns the controllers of a pod, the nearest first. It ends at an intermediate
// owner that the cache does not show, but for a ReplicaSet whose Deployment lives.
func ChainOf(ctx context.Context, r client.Reader, pod *corev1.Pod) ([]workload.Owner, error) {
	return workload.Chain(pod, func(owner workload.Owner) (metav1.Object, error) {
		if o, err := Intermediate(ctx, r, pod.Namespace, owner); o != nil || err != nil {
			return o, err
		}
		return replicaSetOf(ctx, r, pod, owner)
	})
}

// Intermediate reads a ReplicaSet or a Job; nil for one that is gone.
func Intermediate(ctx context.Context, r client.Reader, namespace string, owner workload.Owner, options ...client.GetOption) (client.Object, error) {
	var o client.Object = &appsv1.ReplicaSet{}
	if owner.Group == batchv1.GroupName {
		o = &batchv1.Job{}
	}
	err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: owner.Name}, o, options...)
	switch {
	case apierrors.IsNotFound(err) || err == nil && o.GetUID() != owner.UID:
		return nil, nil //nolint:nilnil // an owner that does not exist is an answer
	case err != nil:
		return nil, fmt.Errorf("get %s %s/%s: %w", owner.Kind, namespace, owner.Name, err)
	}
	return o, nil
}

// replicaSetOf returns what a ReplicaSet that is gone said of its Deployment: a user may delete the ReplicaSet alone. It
// is named after the Deployment and the hash in the labels of its pods. A Deployment that is younger than the pod is
// another one of that name.
func replicaSetOf(ctx context.Context, r client.Reader, pod *corev1.Pod, gone workload.Owner) (metav1.Object, error) {
	var d appsv1.Deployment
	name, ok := strings.CutSuffix(gone.Name, "-"+pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey])
	if !ok || gone.Group != appsv1.GroupName {
		return nil, nil //nolint:nilnil // an owner that is gone is an answer
	}
	err := r.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: name}, &d, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err) || err == nil && pod.CreationTimestamp.Before(&d.CreationTimestamp):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get Deployment %s/%s: %w", pod.Namespace, name, err)
	}
	of := metav1.NewControllerRef(&d, appsv1.SchemeGroupVersion.WithKind("Deployment"))
	return &metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{*of}}, nil
}

// PodsOwnedBy returns the pods that a workload controls, directly or through ReplicaSets
// or Jobs.
func PodsOwnedBy(ctx context.Context, r client.Reader, namespace string, owner types.UID) ([]corev1.Pod, error) {
	of := func(uid types.UID) []client.ListOption {
		return []client.ListOption{client.InNamespace(namespace), client.MatchingFields{indexOwner: string(uid)}, client.UnsafeDisableDeepCopy}
	}
	owners := []types.UID{owner}
	sets, err := ReplicaSetsOf(ctx, r, namespace, owner)
	if err != nil {
		return nil, err
	}
	for i := range sets {
		owners = append(owners, sets[i].UID)
	}
	var jobs batchv1.JobList
	if err := r.List(ctx, &jobs, of(owner)...); err != nil {
		return nil, fmt.Errorf("list Jobs of %s: %w", owner, err)
	}
	for i := range jobs.Items {
		owners = append(owners, jobs.Items[i].UID)
	}
	var out []corev1.Pod
	for _, uid := range owners {
		var pods corev1.PodList
		if err := r.List(ctx, &pods, of(uid)...); err != nil {
			return nil, fmt.Errorf("list pods of %s: %w", uid, err)
		}
		out = append(out, pods.Items...)
	}
	return out, nil
}

// ReplicaSetsOf returns the ReplicaSets that a Deployment controls. Callers must not change them.
func ReplicaSetsOf(ctx context.Context, r client.Reader, namespace string, owner types.UID) ([]appsv1.ReplicaSet, error) {
	var sets appsv1.ReplicaSetList
	err := r.List(ctx, &sets, client.InNamespace(namespace), client.MatchingFields{indexOwner: string(owner)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list ReplicaSets of %s: %w", owner, err)
	}
	return sets.Items, nil
}
