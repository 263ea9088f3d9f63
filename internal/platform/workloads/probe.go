package workloads

import (
	"context"
	"errors"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// kruiseStatefulSets are the versions in which OpenKruise serves its StatefulSet, the
// preferred version first.
var kruiseStatefulSets = []schema.GroupVersionKind{
	{Group: appsv1beta1.GroupVersion.Group, Version: "v1beta1", Kind: "StatefulSet"},
	{Group: appsv1beta1.GroupVersion.Group, Version: "v1alpha1", Kind: "StatefulSet"},
}

// prober asks the API server which kinds it serves.
type prober struct {
	live      client.Reader
	discovery discovery.ServerResourcesInterface
}

// probe finds which kinds are served and can be read. A kind for which the API server
// gives no answer stays as it was before.
func (p prober) probe(ctx context.Context, named []schema.GroupVersionKind, before *map[schema.GroupKind]Kind) map[schema.GroupKind]Kind {
	served := map[schema.GroupKind]Kind{}
	for _, kind := range named {
		if known, ok := served[kind.GroupKind()]; ok && known.err == nil {
			continue
		}
		answer := p.probeOne(ctx, kind)
		unanswered := answer.err != nil && !errors.Is(answer.err, errNotServed) && !apierrors.IsForbidden(answer.err)
		if before != nil && unanswered {
			if known, ok := (*before)[kind.GroupKind()]; ok {
				answer = known
			}
		}
		served[kind.GroupKind()] = answer
	}
	return served
}

func (p prober) probeOne(ctx context.Context, kind schema.GroupVersionKind) Kind {
	answer := Kind{GroupVersionKind: kind, err: errNotServed}
	resources, err := p.discovery.ServerResourcesForGroupVersion(kind.GroupVersion().String())
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
	// A forbidden watch would be retried forever without any error; a list tells it at once.
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	answer.err = p.live.List(ctx, list, client.Limit(1))
	return answer
}
