package controller

import (
	"context"
	"errors"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

var errNotServed = errors.New("not served by the API server")

// kruiseStatefulSets are the versions in which OpenKruise serves its StatefulSet, the one
// to take first.
var kruiseStatefulSets = []schema.GroupVersionKind{
	{Group: appsv1beta1.GroupVersion.Group, Version: "v1beta1", Kind: "StatefulSet"},
	{Group: appsv1beta1.GroupVersion.Group, Version: "v1alpha1", Kind: "StatefulSet"},
}

// servedKind is a kind that the API server serves and lets us read, or err is why not.
type servedKind struct {
	schema.GroupVersionKind
	scale bool // it has a scale subresource
	err   error
}

func sameServed(a, b map[schema.GroupKind]servedKind) bool {
	return maps.EqualFunc(a, b, func(x, y servedKind) bool {
		return x.GroupVersionKind == y.GroupVersionKind && x.scale == y.scale && (x.err == nil) == (y.err == nil)
	})
}

// probe finds which kinds are served and can be read. An answer that does not come leaves
// a kind as it was known before.
func (w *Workloads) probe(ctx context.Context, named []schema.GroupVersionKind) map[schema.GroupKind]servedKind {
	served := map[schema.GroupKind]servedKind{}
	for _, kind := range slices.Concat(kruiseStatefulSets, named) {
		if known, ok := served[kind.GroupKind()]; ok && known.err == nil {
			continue
		}
		answer := w.probeOne(ctx, kind)
		if before := w.served.Load(); before != nil && answer.err != nil &&
			!errors.Is(answer.err, errNotServed) && !apierrors.IsForbidden(answer.err) {
			if known, ok := (*before)[kind.GroupKind()]; ok {
				answer = known
			}
		}
		served[kind.GroupKind()] = answer
	}
	return served
}

// readable are the kinds that are served and can be read.
func (w *Workloads) readable() []schema.GroupVersionKind {
	served := w.served.Load()
	if served == nil {
		return nil
	}
	var kinds []schema.GroupVersionKind
	for _, kind := range *served {
		if kind.err == nil {
			kinds = append(kinds, kind.GroupVersionKind)
		}
	}
	return kinds
}

func (w *Workloads) probeOne(ctx context.Context, kind schema.GroupVersionKind) servedKind {
	answer := servedKind{GroupVersionKind: kind, err: errNotServed}
	resources, err := w.Discovery.ServerResourcesForGroupVersion(kind.GroupVersion().String())
	if err != nil {
		if !apierrors.IsNotFound(err) {
			answer.err = err
		}
		return answer
	}
	i := slices.IndexFunc(resources.APIResources, func(r metav1.APIResource) bool { return r.Kind == kind.Kind && r.Namespaced })
	if i < 0 {
		return answer
	}
	scale := resources.APIResources[i].Name + "/scale"
	answer.scale = slices.ContainsFunc(resources.APIResources, func(r metav1.APIResource) bool { return r.Name == scale })
	// A watch that is not allowed would try for ever, and nobody would hear why.
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	answer.err = w.Live.List(ctx, list, client.Limit(1))
	return answer
}

// watch has those kinds watched that are served, and the others no more.
func (w *Workloads) watch(ctx context.Context, served map[schema.GroupKind]servedKind) error {
	var errs []error
	for _, kind := range served {
		if kind.err != nil || w.watched[kind.GroupVersionKind] {
			continue
		}
		w.watched[kind.GroupVersionKind] = true
		for _, watch := range w.watchers {
			errs = append(errs, watch(kind.GroupVersionKind))
		}
	}
	for kind := range w.watched {
		if now, ok := served[kind.GroupKind()]; ok && now.GroupVersionKind == kind && now.err == nil {
			continue
		}
		delete(w.watched, kind)
		errs = append(errs, w.cache.RemoveInformer(ctx, metadataOf(kind)))
	}
	return errors.Join(errs...)
}

// metadataOf is the object that stands for a kind of which only the metadata is watched.
func metadataOf(kind schema.GroupVersionKind) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(kind)
	return o
}
