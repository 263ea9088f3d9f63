package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// keepChanged reports whether an update changed what a namespace asks for its pods.
func keepChanged(before, after client.Object) bool {
	return before.GetAnnotations()[reservation.KeepAnnotation] != after.GetAnnotations()[reservation.KeepAnnotation]
}

// inNamespace requests the workloads of a namespace.
func (g *Generator) inNamespace(ctx context.Context, ns client.Object) []kindRequest {
	var requests []kindRequest
	for _, kind := range append(g.Watcher.Registry.Readable(), workloads.StatefulSets) {
		list := client.ObjectList(&appsv1.StatefulSetList{})
		if kind != workloads.StatefulSets {
			metadata := &metav1.PartialObjectMetadataList{}
			metadata.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
			list = metadata
		}
		if err := g.Client.List(ctx, list, client.InNamespace(ns.GetName()), client.UnsafeDisableDeepCopy); err != nil {
			continue // only a cache that is being stopped returns an error
		}
		_ = meta.EachListItem(list, func(o runtime.Object) error { // the function returns none
			requests = append(requests, kindRequest{kind, client.ObjectKeyFromObject(o.(client.Object))})
			return nil
		})
	}
	return requests
}

// ofUnkept requests the workload of a pod that was created while no webhook answered: it lacks what its namespace or its
// workload asks.
func (g *Generator) ofUnkept(ctx context.Context, o client.Object) []kindRequest {
	pod := o.(*corev1.Pod)
	owner, ok := workload.OwnerOf(pod)
	if !ok || reservation.Asks(pod.Annotations) || !g.Watcher.Registry.Kinds().Contains(owner) {
		return nil
	}
	kind := workloads.StatefulSets
	if owner.GroupKind() != kind.GroupKind() {
		served, err := g.Watcher.Registry.Served(owner)
		if err != nil { // the PersistentPodStates of the kind report it
			return nil
		}
		kind = served.GroupVersionKind
	}
	return []kindRequest{{kind, client.ObjectKey{Namespace: pod.Namespace, Name: owner.Name}}}
}

// templateOf returns the annotations of a workload's pod template.
func templateOf(owner client.Object) map[string]string {
	switch o := owner.(type) {
	case *appsv1.StatefulSet:
		return o.Spec.Template.Annotations
	case *unstructured.Unstructured:
		annotations, _, _ := unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "annotations") // of another form: none
		return annotations
	}
	return nil
}

// give gives the running pods of a workload what it and its namespace ask for them now. The agents notice it within seconds.
func (g *Generator) give(ctx context.Context, in pin.GenerateInput) error {
	keep := pin.NearestKeep(in.Kind.Kind, in.Workload.GetAnnotations(), in.Namespace)
	target := workload.Target{Group: in.Kind.Group, Kind: in.Kind.Kind, Name: in.Workload.GetName()}
	pods, err := cluster.PodsOf(ctx, g.Client, in.Workload.GetNamespace(), target)
	errs := []error{err}
	for i := range pods {
		pod := &pods[i]
		changes := keep.Changes(pod)
		if len(changes) == 0 || !workload.Alive(pod) {
			continue
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": changes}})
		if err == nil {
			err = g.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
		}
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("annotate pod %s: %w", pod.Name, err))
		}
	}
	return errors.Join(errs...)
}
