package reconcile

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// namespaceAnnotations returns what the cache keeps of the annotations of a namespace.
func namespaceAnnotations(ctx context.Context, cached client.Reader, name string) (map[string]string, error) {
	var ns corev1.Namespace
	if err := cached.Get(ctx, client.ObjectKey{Name: name}, &ns, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get namespace %s: %w", name, err)
	}
	return ns.Annotations, nil
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

// ofUnkept requests the workload of a new pod that has not what its workload and its namespace ask: no webhook answered
// when the pod was created, or one whose cache was behind.
func (g *Generator) ofUnkept(ctx context.Context, o client.Object) []kindRequest {
	pod := o.(*corev1.Pod)
	target, ok := workload.OwnerOf(pod)
	if !ok || !g.Watcher.Registry.Kinds().Contains(target) {
		return nil
	}
	kind, owner := workloads.StatefulSets, client.Object(&appsv1.StatefulSet{})
	if target.GroupKind() != kind.GroupKind() {
		served, err := g.Watcher.Registry.Served(target)
		if err != nil { // the PersistentPodStates of the kind report it
			return nil
		}
		kind, owner = served.GroupVersionKind, workloads.Metadata(served.GroupVersionKind)
	}
	key := client.ObjectKey{Namespace: pod.Namespace, Name: target.Name}
	var ns corev1.Namespace
	if g.Client.Get(ctx, key, owner) != nil || g.Client.Get(ctx, client.ObjectKey{Name: pod.Namespace}, &ns) != nil {
		return nil // the cache shows no such workload, whose first event will request it
	}
	in := pin.GenerateInput{Workload: owner, Kind: kind, Template: templateOf(owner), Namespace: ns.Annotations}
	if len(in.KeepOfRunning().Changes(pod)) == 0 {
		return nil
	}
	return []kindRequest{{kind, key}}
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

// mostGiven is how many pods of a workload are changed before other workloads have their turn.
const mostGiven = 100

// give gives the running pods of a workload what it and its namespace ask for them now. The agents notice it within
// seconds. It returns what refuses the changes of some pods, and whether more pods are to be changed.
func (g *Generator) give(ctx context.Context, in pin.GenerateInput) (refused string, more bool, err error) {
	keep := in.KeepOfRunning()
	target := workload.Target{Group: in.Kind.Group, Kind: in.Kind.Kind, Name: in.Workload.GetName()}
	pods, err := cluster.PodsOf(ctx, g.Client, in.Workload.GetNamespace(), target)
	given := 0
	for i := range pods {
		changes := keep.Changes(&pods[i])
		if len(changes) == 0 || !workload.Alive(&pods[i]) {
			continue
		}
		if given++; given > mostGiven {
			return refused, true, err
		}
		switch failed := g.annotate(ctx, &pods[i], changes); {
		case apierrors.IsForbidden(failed): // by a policy or a webhook; a retry would not help
			refused = fmt.Sprintf("pods do not get %s: %v", reservation.KeepAnnotation, failed)
		case client.IgnoreNotFound(failed) != nil && err == nil: // the first of many
			err = fmt.Errorf("annotate pod %s: %w", pods[i].Name, failed)
		}
	}
	return refused, false, err
}

func (g *Generator) annotate(ctx context.Context, pod *corev1.Pod, changes map[string]*string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": changes}})
	if err != nil {
		return fmt.Errorf("encode annotations: %w", err)
	}
	return g.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
}
