package controller

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/pkg/pin"
)

// Read returns what counts of a workload; nil for one that does not exist or is being
// deleted. unread is why that cannot be known.
func (w *Workloads) Read(ctx context.Context, namespace string, t pin.Target) (workload *pin.Workload, unread string, err error) {
	if t.Group == appsv1.GroupName {
		workload, err = w.statefulSet(ctx, client.ObjectKey{Namespace: namespace, Name: t.Name})
		return workload, "", err
	}
	kind, err := w.kindOf(t)
	if err != nil {
		return nil, err.Error(), nil //nolint:nilerr // it is told, not retried: a change of the kinds asks again
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind.GroupVersionKind)
	err = w.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: t.Name}, object)
	switch {
	case apierrors.IsNotFound(err) || err == nil && object.GetDeletionTimestamp() != nil:
		return nil, "", nil
	case apierrors.IsForbidden(err):
		return nil, err.Error(), nil
	case err != nil:
		return nil, "", fmt.Errorf("get %s %s: %w", t.Kind, t.Name, err)
	}
	read := pin.WorkloadOf(object.Object, kind.GroupKind())
	if kind.scale {
		unread, err = w.scale(ctx, object, &read)
	}
	return &read, unread, err
}

// kindOf returns the served kind of a target, or why there is none.
func (w *Workloads) kindOf(t pin.Target) (servedKind, error) {
	served := w.served.Load()
	if served == nil {
		return servedKind{}, errKindsUnread
	}
	kind, ok := (*served)[schema.GroupKind{Group: t.Group, Kind: t.Kind}]
	if !ok {
		kind.err = errNotServed
	}
	if kind.err != nil {
		return kind, fmt.Errorf("%s of %s: %w", t.Kind, t.Group, kind.err)
	}
	return kind, nil
}

// scale asks the one subresource that says how many replicas are wanted, wherever the
// kind keeps that number.
func (w *Workloads) scale(ctx context.Context, of *unstructured.Unstructured, into *pin.Workload) (unread string, err error) {
	scale := &unstructured.Unstructured{}
	scale.SetAPIVersion("autoscaling/v1")
	scale.SetKind("Scale")
	err = w.Client.SubResource("scale").Get(ctx, of, scale)
	switch {
	case apierrors.IsForbidden(err):
		return err.Error(), nil
	case err != nil:
		return "", fmt.Errorf("get scale of %s %s: %w", of.GetKind(), of.GetName(), err)
	}
	replicas, _, err := unstructured.NestedInt64(scale.Object, "spec", "replicas") // none at all means 0
	into.Replicas = int32(replicas)
	return "", err
}

func (w *Workloads) statefulSet(ctx context.Context, key client.ObjectKey) (*pin.Workload, error) {
	var set appsv1.StatefulSet
	err := w.Client.Get(ctx, key, &set, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err) || err == nil && set.DeletionTimestamp != nil:
		return nil, nil //nolint:nilnil // that it does not exist is an answer
	case err != nil:
		return nil, fmt.Errorf("get StatefulSet %s: %w", key, err)
	}
	workload := &pin.Workload{Replicas: ptr.Deref(set.Spec.Replicas, 1)}
	if set.Spec.Ordinals != nil {
		workload.Start = set.Spec.Ordinals.Start
	}
	return workload, nil
}
