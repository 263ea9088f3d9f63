package workloads

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
)

// cronJobs is the only kind of Kubernetes that makes pods and that no cache holds.
var cronJobs = batchv1.SchemeGroupVersion.WithKind("CronJob")

// Reader reads workloads of the kinds in a registry.
type Reader struct {
	*Registry
	// Cached reads StatefulSets.
	Cached client.Reader
	// Live reads past the cache, which holds no other workloads.
	Live client.Reader
	// LiveProven is Live for workloads that were seen; nil where Live serves all.
	LiveProven client.Reader
	// Scales reads scale subresources.
	Scales client.SubResourceClientConstructor
	// Namespaces are where the ConfigMap that names kinds is looked for.
	Namespaces []string

	owners ownerAnswers
}

// Needs is what a Watcher and a Reader read from the caches.
func Needs(namespaces ...string) cluster.Needs {
	return cluster.Needs{Objects: []cluster.Need{
		cluster.Of[*corev1.ConfigMap]().Named(KindsConfigMap, namespaces...),
		cluster.Of(cluster.OwnAnnotations, statefulSetSize),
	}}
}

// statefulSetSize keeps how many pods a StatefulSet wants.
func statefulSetSize(from, to *appsv1.StatefulSet) {
	to.Spec.Replicas, to.Spec.Ordinals = from.Spec.Replicas, from.Spec.Ordinals
}

// Fresh returns the kinds as they are named at this moment, for a user who has just named
// a kind.
func (r *Reader) Fresh(ctx context.Context) (workload.Kinds, error) {
	maps, err := readConfigMaps(ctx, r.Live, trusted(r.Namespaces, r.known()))
	return union(parse(maps, KindsKey, workload.ParseKinds)), err
}

// Read returns which pods a workload wants; nil for a workload that does not exist or is
// being deleted. unread says why that cannot be known.
func (r *Reader) Read(ctx context.Context, namespace string, t workload.Target) (desired *workload.Desired, unread string, err error) {
	if t.Group == appsv1.GroupName {
		desired, err = r.statefulSet(ctx, client.ObjectKey{Namespace: namespace, Name: t.Name})
		return desired, "", err
	}
	kind, err := r.Served(t)
	if err != nil {
		return nil, remedied(err), nil // reported, not retried: a change of the kinds triggers the next read
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind.GroupVersionKind)
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: t.Name}, object)
	switch {
	case apierrors.IsNotFound(err) || err == nil && object.GetDeletionTimestamp() != nil:
		return nil, "", nil
	case apierrors.IsForbidden(err):
		return nil, remedied(err), nil
	case err != nil:
		return nil, "", fmt.Errorf("get %s %s: %w", t.Kind, t.Name, err)
	}
	read := workload.DesiredOf(object.Object, kind.GroupKind())
	read.Created = object.GetCreationTimestamp().Time
	if kind.scale {
		unread, err = r.scale(ctx, object, &read)
	}
	return &read, unread, err
}

// Wants reports whether a workload wants a pod with such a name, of any kind whose pods return under their names. It does while
// that cannot be known.
func (r *Reader) Wants(ctx context.Context, pod client.ObjectKey) (bool, error) {
	at := strings.LastIndexByte(pod.Name, '-')
	if at < 0 {
		return false, nil
	}
	targets := []workload.Target{{Group: appsv1.GroupName, Kind: StatefulSets.Kind, Name: pod.Name[:at]}}
	for kind, served := range r.known() {
		if !errors.Is(served.err, errNotServed) {
			targets = append(targets, workload.Target{Group: kind.Group, Kind: kind.Kind, Name: pod.Name[:at]})
		}
	}
	for _, t := range targets {
		desired, unread, err := r.Read(ctx, pod.Namespace, t)
		if err != nil || unread != "" {
			return true, err
		}
		if desired == nil {
			continue
		}
		pods, err := cluster.PodsOf(ctx, r.Cached, pod.Namespace, t)
		if err != nil || desired.ContainsAny([]string{pod.Name}, pods) {
			return true, err
		}
	}
	return r.known() == nil, nil
}

// Gone reports whether a workload makes no more pods: it does not exist, or is a Job that has ended. Of a kind that the controller
// may not read, that cannot be known.
func (r *Reader) Gone(ctx context.Context, namespace string, t workload.Target) (bool, error) {
	kind, _ := r.Nudged(t)
	if t.GroupKind() == cronJobs.GroupKind() {
		kind = cronJobs
	}
	if kind.Empty() {
		return false, nil
	}
	var o client.Object = Metadata(kind)
	job, isJob := cluster.NewWorkload(t.GroupKind()).(*batchv1.Job)
	if isJob {
		o = job
	}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: t.Name}, o)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil && !apierrors.IsForbidden(err):
		return false, fmt.Errorf("get %s %s/%s: %w", kind.Kind, namespace, t.Name, err)
	}
	return isJob && cluster.JobEnded(job), nil
}

// scale reads the wanted number of replicas from the scale subresource, in whatever field
// the kind itself keeps it.
func (r *Reader) scale(ctx context.Context, of *unstructured.Unstructured, into *workload.Desired) (unread string, err error) {
	scale := &unstructured.Unstructured{}
	scale.SetAPIVersion("autoscaling/v1")
	scale.SetKind("Scale")
	err = r.Scales.SubResource("scale").Get(ctx, of, scale)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err): // the object, or its kind, went a moment ago
		return remedied(err), nil
	case err != nil:
		return "", fmt.Errorf("get scale of %s %s: %w", of.GetKind(), of.GetName(), err)
	}
	replicas, _, err := unstructured.NestedInt64(scale.Object, "spec", "replicas") // a missing field means 0
	into.Replicas = int32(replicas)
	return "", err
}

func (r *Reader) statefulSet(ctx context.Context, key client.ObjectKey) (*workload.Desired, error) {
	var set appsv1.StatefulSet
	err := r.Cached.Get(ctx, key, &set, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err) || err == nil && set.DeletionTimestamp != nil:
		return nil, nil //nolint:nilnil // a set that does not exist is an answer
	case err != nil:
		return nil, fmt.Errorf("get StatefulSet %s: %w", key, err)
	}
	desired := &workload.Desired{Replicas: ptr.Deref(set.Spec.Replicas, 1), Created: set.CreationTimestamp.Time}
	if set.Spec.Ordinals != nil {
		desired.Start = set.Spec.Ordinals.Start
	}
	return desired, nil
}
