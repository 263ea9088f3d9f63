package workloads

import (
	"context"
	"fmt"
	"reflect"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// spreadKinds are the kinds that are named for spreads, and which of them are served.
type spreadKinds struct {
	named  workload.SpreadKinds
	served map[schema.GroupKind]Kind
}

// SpreadKinds returns the kinds that are named for spreads now.
func (r *Registry) SpreadKinds() workload.SpreadKinds {
	if known := r.spreads.Load(); known != nil {
		return known.named
	}
	return workload.SpreadKinds{}
}

// SpreadsChanged receives an event when other kinds than before are named for spreads or served.
func (r *Registry) SpreadsChanged() <-chan event.GenericEvent { return r.spreadsChanged }

// ServedForSpreads returns a kind that is named for spreads, in the version that is served; false
// for a kind that cannot be read.
func (r *Registry) ServedForSpreads(of schema.GroupKind) (schema.GroupVersionKind, bool) {
	if known := r.spreads.Load(); known != nil {
		served, ok := known.served[of]
		return served.GroupVersionKind, ok && served.err == nil
	}
	return schema.GroupVersionKind{}, false
}

// SpreadProblem says what hinders spreads of a kind that was named, or could be; "" for nothing.
func (r *Registry) SpreadProblem(of schema.GroupKind) string {
	known := r.spreads.Load()
	if known == nil || of.Group == appsv1.GroupName || of.Group == batchv1.GroupName {
		return ""
	}
	if known.named.Problem != "" {
		return known.named.Problem
	}
	if !known.named.Contains(of) {
		return ""
	}
	for _, each := range append([]kind{{Group: of.Group, Kind: of.Kind}}, known.named.BetweenOf(of)...) {
		if served := known.served[each.GroupKind()]; served.err != nil {
			return fmt.Sprintf("%s of %s: %v; remedy: the CRD, or the right to get, list and watch the kind", each.Kind, each.Group, served.err)
		}
	}
	return ""
}

func (r *Registry) servedSpreads() *map[schema.GroupKind]Kind {
	if known := r.spreads.Load(); known != nil {
		return &known.served
	}
	return nil
}

// setSpreads replaces what is known about the kinds for spreads, and reports whether it is another
// than before.
func (r *Registry) setSpreads(named workload.SpreadKinds, served map[schema.GroupKind]Kind) (changed bool) {
	before := r.spreads.Swap(&spreadKinds{named, served})
	if before != nil && reflect.DeepEqual(before.named, named) && sameServed(before.served, served) || before == nil && len(named.Named) == 0 && named.Problem == "" {
		return false
	}
	notify(r.spreadsChanged, &appsv1beta1.WorkloadSpread{})
	return true
}

// FreshSpreadKinds returns the kinds for spreads as they are named at this moment.
func (r *Reader) FreshSpreadKinds(ctx context.Context) (workload.SpreadKinds, error) {
	maps, err := readConfigMaps(ctx, r.Live, trusted(r.Namespaces, r.known()))
	return unionOfSpreads(parse(maps, SpreadKindsKey, workload.ParseSpreadKinds)), err
}

// Intermediate reports whether the owner of a pod may itself be controlled by the workload of a spread:
// a ReplicaSet, a Job, or a kind that is named.
func (r *Registry) Intermediate(owner workload.Owner) bool {
	return owner.Intermediate() || len(r.SpreadKinds().Above(owner.GroupKind())) > 0
}

// IntermediateObject reads an object of a kind that is named between a workload and its pods; nil for
// an object that is gone or cannot be read. What was read is remembered for some seconds.
func (r *Reader) IntermediateObject(ctx context.Context, namespace string, owner workload.Owner, now time.Time) (metav1.Object, error) {
	if o := cachedKind(owner.GroupKind()); o != nil {
		err := r.Cached.Get(ctx, client.ObjectKey{Namespace: namespace, Name: owner.Name}, o, client.UnsafeDisableDeepCopy)
		if err == nil && o.GetUID() == owner.UID {
			return o, nil
		}
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("get %s %s/%s: %w", owner.Kind, namespace, owner.Name, err)
		}
	}
	id := ownerID{owner, namespace}
	found, known := r.owners.get(id, now)
	if known || !id.plausible() {
		return found, nil
	}
	served, readable := r.ServedForSpreads(owner.GroupKind())
	if !readable {
		return nil, nil //nolint:nilnil // the spread reports a kind that cannot be read
	}
	object, _, err := r.liveOwner(ctx, served, id, now)
	return object, err
}

// cachedKind is an object of a kind that the cache holds with its owner; nil for another kind.
func cachedKind(of schema.GroupKind) client.Object {
	switch of {
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}:
		return &appsv1.Deployment{}
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "StatefulSet"}:
		return &appsv1.StatefulSet{}
	}
	return nil
}

// BetweenNeeds is what IntermediateObject and OwnersBetween read from the caches.
func BetweenNeeds() cluster.Needs {
	return cluster.Needs{Objects: []cluster.Need{cluster.Of(cluster.Owners[*appsv1.Deployment]), cluster.Of(cluster.Owners[*appsv1.StatefulSet])}}
}

// listTimeout bounds the wait for a watch that was just ended.
const listTimeout = 5 * time.Second

// OwnersBetween returns the objects of the kinds that are named between a workload and its pods,
// and that belong to the workload. Only the leader watches these kinds.
func (r *Registry) OwnersBetween(ctx context.Context, watched client.Reader, namespace string, target workload.Target) ([]metav1.Object, error) {
	var all []metav1.Object
	for _, of := range r.SpreadKinds().BetweenOf(target.GroupKind()) {
		objects, err := r.listBetween(ctx, watched, namespace, of.GroupKind())
		if err != nil {
			return nil, err
		}
		all = append(all, objects...)
	}
	var found []metav1.Object
	within := map[any]bool{target: true}
	for range mostLevels {
		var rest []metav1.Object
		for _, o := range all {
			owner, _ := workload.ControllerOf(o)
			if !within[owner.Target] && !within[owner.UID] {
				rest = append(rest, o)
				continue
			}
			found = append(found, o)
			within[o.GetUID()] = true
		}
		all = rest
	}
	return found, nil
}

// mostLevels is how many objects may stand between a workload and its pods, one below the other.
const mostLevels = 3

func (r *Registry) listBetween(ctx context.Context, watched client.Reader, namespace string, of schema.GroupKind) (all []metav1.Object, err error) {
	options := []client.ListOption{client.InNamespace(namespace), client.UnsafeDisableDeepCopy}
	switch cachedKind(of).(type) {
	case *appsv1.Deployment:
		var list appsv1.DeploymentList
		err = watched.List(ctx, &list, options...)
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	case *appsv1.StatefulSet:
		var list appsv1.StatefulSetList
		err = watched.List(ctx, &list, options...)
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	default:
		served, readable := r.ServedForSpreads(of)
		if !readable || (workload.Owner{Target: workload.Target{Group: of.Group, Kind: of.Kind}}).Intermediate() {
			return nil, nil // ReplicaSets and Jobs are known by their owners
		}
		ctx, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(served.GroupVersion().WithKind(served.Kind + "List"))
		err = watched.List(ctx, list, options...)
		for i := range list.Items {
			all = append(all, &list.Items[i])
		}
	}
	if err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("list %s of namespace %s: %w", of, namespace, err)
	}
	return all, nil
}
