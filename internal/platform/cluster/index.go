package cluster

import (
	"context"
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Index is a cache index of one kind of object by keys of its own.
type Index struct {
	object client.Object
	name   string
	keys   func(client.Object) []string

	read      scope
	scattered bool // hardly two objects have the same key
}

// scope is how an index is read.
type scope int

const (
	eitherWay   scope = iota
	everywhere        // without a namespace
	inNamespace       // within one namespace
)

// Everywhere makes an index one that is read without a namespace. The cache keeps only the keys
// that are read: of a unique key the others take as much memory as a pod.
func (i Index) Everywhere() Index {
	i.read = everywhere
	return i
}

// InNamespace makes an index one that is read within one namespace.
func (i Index) InNamespace() Index {
	i.read = inNamespace
	return i
}

// Scattered makes an index one of which hardly two objects have the same key.
func (i Index) Scattered() Index {
	i.scattered = true
	return i
}

// By makes an index of the objects of a kind.
func By[T client.Object](name string, keys func(T) []string) Index {
	return Index{object: newObject[T](), name: name, keys: func(o client.Object) []string { return keys(o.(T)) }}
}

// StatesByTarget indexes PersistentPodStates by their target.
func StatesByTarget() Index {
	return By(indexTarget, func(s *appsv1beta1.PersistentPodState) []string {
		return []string{workload.TargetOf(s.Spec.TargetReference).String()}
	})
}

// PodsByTarget indexes pods by the workload that controls them, unless their names never
// return. Every other kind is in the index, since a user may name it at any time.
func PodsByTarget() Index {
	return By(indexTarget, func(pod *corev1.Pod) []string {
		if owner, ok := workload.OwnerOf(pod); ok && !owner.Unstable() {
			return []string{owner.String()}
		}
		return nil
	}).InNamespace()
}

// PodsByOwnerName indexes pods with a completed owner by its name.
func PodsByOwnerName() Index {
	return By(indexOwnerName, func(pod *corev1.Pod) []string {
		if name := reservation.OwnerName("", pod.Annotations); name != "" {
			return []string{name}
		}
		return nil
	}).InNamespace().Scattered()
}

// PodsByAddress indexes pods by their addresses.
func PodsByAddress() Index {
	return By(indexIP, func(pod *corev1.Pod) (ips []string) {
		if workload.Ended(pod) || pod.Spec.HostNetwork {
			return nil
		}
		for _, ip := range pod.Status.PodIPs {
			ips = append(ips, ip.IP)
		}
		return ips
	}).Everywhere().Scattered()
}

// ReservationsByPod indexes IPReservations by the name of their pod.
func ReservationsByPod() Index {
	return By(indexPod, func(r *limpetv1alpha1.IPReservation) []string { return []string{r.Status.Pod} }).InNamespace().Scattered()
}

// PoolsByNode indexes NodeIPPools by the name of their node.
func PoolsByNode() Index {
	return By(indexNode, func(p *limpetv1alpha1.NodeIPPool) []string { return []string{p.Status.Node} })
}

const (
	indexTarget = "limpet.target"
	indexPod    = "limpet.pod"
	indexIP     = "limpet.ip"
	indexNode   = "limpet.node"
	indexOwner  = "limpet.owner"

	indexOwnerName = "limpet.owner-name"
)

// AddIndexes adds the indexes of all features. An index that several features need is added once.
func AddIndexes(ctx context.Context, indexer client.FieldIndexer, features ...Needs) error {
	type key struct {
		kind reflect.Type
		name string
	}
	added := map[key]bool{}
	for _, feature := range features {
		for _, index := range feature.Indexes {
			k := key{reflect.TypeOf(index.object), index.name}
			if added[k] {
				continue
			}
			added[k] = true
			if err := indexer.IndexField(ctx, index.object, index.name, index.keys); err != nil {
				return fmt.Errorf("index %T by %s: %w", index.object, index.name, err)
			}
		}
	}
	return nil
}

// indexesByKind are the indexes of kinds of which the cache does not keep each key, by the names
// that a store gives them.
func indexesByKind(features []Needs) map[reflect.Type]map[string]Index {
	byKind := map[reflect.Type]map[string]Index{}
	for _, feature := range features {
		for _, index := range feature.Indexes {
			if index.read == eitherWay && !index.scattered {
				continue
			}
			kind := reflect.TypeOf(index.object)
			if byKind[kind] == nil {
				byKind[kind] = map[string]Index{}
			}
			byKind[kind][fieldPrefix+index.name] = index
		}
	}
	return byKind
}
