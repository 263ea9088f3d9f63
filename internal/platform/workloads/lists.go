package workloads

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/workload"
)

const (
	// KindsConfigMap is the ConfigMap in which users of OpenKruise name further kinds.
	KindsConfigMap = "kruise-configuration"
	// KindsKey is the key of the ConfigMap that lists the kinds whose pods return.
	KindsKey = "PPS_Watch_Custom_Workload_WhiteList"
	// SpreadKindsKey is the key of the ConfigMap that lists the kinds whose pods are spread.
	SpreadKindsKey = "WorkloadSpread_Watch_Custom_Workload_WhiteList"
)

// trusted are the namespaces whose ConfigMap counts: Limpet's own, the first one, and that of OpenKruise while OpenKruise
// is installed. Without it, a tenant may have a namespace of that name.
func trusted(namespaces []string, served map[schema.GroupKind]Kind) []string {
	if kruise, asked := served[kruiseStatefulSets[0].GroupKind()]; asked && !errors.Is(kruise.err, errNotServed) {
		return namespaces
	}
	return namespaces[:1]
}

// kindList is the list of kinds that one ConfigMap has under a key.
type kindList[T any] struct {
	from  *corev1.ConfigMap
	key   string
	kinds []T
	err   error // why some of the kinds are missing
}

// readConfigMaps reads the ConfigMap in every namespace that has it.
func readConfigMaps(ctx context.Context, r client.Reader, namespaces []string) ([]*corev1.ConfigMap, error) {
	var all []*corev1.ConfigMap
	for _, namespace := range namespaces {
		from := &corev1.ConfigMap{}
		err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: KindsConfigMap}, from)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("get ConfigMap %s/%s: %w", namespace, KindsConfigMap, err)
		}
		all = append(all, from)
	}
	return all, nil
}

// parse reads the lists under one key.
func parse[T any](from []*corev1.ConfigMap, key string, parse func(string) ([]T, error)) (lists []kindList[T]) {
	for _, o := range from {
		list := kindList[T]{from: o, key: key}
		list.kinds, list.err = parse(o.Data[key])
		lists = append(lists, list)
	}
	return lists
}

// keepValid replaces each malformed list by the last valid list of its namespace, which
// stays in force. Where no list was valid yet, the valid entries of the malformed list
// count. It returns the lists in force, by namespace; a deleted ConfigMap is forgotten.
func keepValid[T any](lists []kindList[T], last map[string][]T) map[string][]T {
	now := map[string][]T{}
	for i, list := range lists {
		namespace := list.from.Namespace
		if before, known := last[namespace]; known && list.err != nil {
			lists[i].kinds = before
		}
		if _, known := last[namespace]; known || list.err == nil {
			now[namespace] = lists[i].kinds
		}
	}
	return now
}

// union is the kinds of all lists, and why some are missing.
func union(lists []kindList[kind]) workload.Kinds {
	kinds := workload.Kinds{Problem: problems(lists)}
	for _, list := range lists {
		for _, kind := range list.kinds {
			if !kinds.Contains(workload.Target{Group: kind.Group, Kind: kind.Kind}) {
				kinds.Named = append(kinds.Named, kind)
			}
		}
	}
	return kinds
}

// unionOfSpreads is the kinds for spreads of all lists, and why some are missing.
func unionOfSpreads(lists []kindList[workload.SpreadKind]) workload.SpreadKinds {
	kinds := workload.SpreadKinds{Problem: problems(lists)}
	for _, list := range lists {
		for i := range list.kinds {
			if !kinds.Contains(list.kinds[i].GroupKind()) {
				kinds.Named = append(kinds.Named, list.kinds[i])
			}
		}
	}
	return kinds
}

func problems[T any](lists []kindList[T]) string {
	var all []string
	for _, list := range lists {
		if list.err != nil {
			all = append(all, fmt.Sprintf("ConfigMap %s, key %s: %v", client.ObjectKeyFromObject(list.from), list.key, list.err))
		}
	}
	return strings.Join(all, "; ")
}
