package workloads

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/pkg/workload"
)

const (
	// KindsConfigMap is the ConfigMap in which users of OpenKruise name further kinds.
	KindsConfigMap = "kruise-configuration"
	// KindsKey is the key in it that lists the kinds whose pods return.
	KindsKey = "PPS_Watch_Custom_Workload_WhiteList"
)

// kindList is the list of kinds in one ConfigMap.
type kindList struct {
	from  *corev1.ConfigMap
	kinds []schema.GroupVersionKind
	err   error // why some of the kinds are missing
}

// readLists reads the ConfigMap in every namespace that has it.
func readLists(ctx context.Context, r client.Reader, namespaces []string) ([]kindList, error) {
	var lists []kindList
	for _, namespace := range namespaces {
		from := &corev1.ConfigMap{}
		err := r.Get(ctx, client.ObjectKey{Namespace: namespace, Name: KindsConfigMap}, from)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("get ConfigMap %s/%s: %w", namespace, KindsConfigMap, err)
		}
		list := kindList{from: from}
		list.kinds, list.err = workload.ParseKinds(from.Data[KindsKey])
		lists = append(lists, list)
	}
	return lists, nil
}

// keepValid replaces each malformed list by the last valid list of its namespace, which
// stays in force. Where no list was valid yet, the valid entries of the malformed list
// count. It returns the lists in force, by namespace; a deleted ConfigMap is forgotten.
func keepValid(lists []kindList, last map[string][]schema.GroupVersionKind) map[string][]schema.GroupVersionKind {
	now := map[string][]schema.GroupVersionKind{}
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
func union(lists []kindList) workload.Kinds {
	var kinds workload.Kinds
	var problems []string
	for _, list := range lists {
		for _, kind := range list.kinds {
			if !kinds.Contains(workload.Target{Group: kind.Group, Kind: kind.Kind}) {
				kinds.Named = append(kinds.Named, kind)
			}
		}
		if list.err != nil {
			problems = append(problems, fmt.Sprintf("ConfigMap %s, key %s: %v", client.ObjectKeyFromObject(list.from), KindsKey, list.err))
		}
	}
	kinds.Problem = strings.Join(problems, "; ")
	return kinds
}
