package controller

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/pkg/pin"
)

const (
	// KindsConfigMap is the ConfigMap in which OpenKruise's users name further kinds.
	KindsConfigMap = "kruise-configuration"
	// KindsKey is the key of it under which those are whose pods return.
	KindsKey = "PPS_Watch_Custom_Workload_WhiteList"
)

// kindList is what one ConfigMap names.
type kindList struct {
	from  *corev1.ConfigMap
	kinds []schema.GroupVersionKind
	err   error // why not all of them
}

// readKinds reads the ConfigMap in every namespace that has it.
func readKinds(ctx context.Context, r client.Reader, namespaces []string) ([]kindList, error) {
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
		list.kinds, list.err = pin.ParseKinds(from.Data[KindsKey])
		lists = append(lists, list)
	}
	return lists, nil
}

// keepSound has the last wholly sound list of each namespace count instead of one that is
// not, for nothing stops because of a slip. It returns those that are sound now. Where none
// was, what can be read of a list counts.
func keepSound(lists []kindList, last map[string][]schema.GroupVersionKind) map[string][]schema.GroupVersionKind {
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
	return now // what a ConfigMap said that was deleted is forgotten
}

// union is what the lists name together, and why that is not all.
func union(lists []kindList) pin.Kinds {
	var kinds pin.Kinds
	var problems []string
	for _, list := range lists {
		for _, kind := range list.kinds {
			if !kinds.Hold(pin.Target{Group: kind.Group, Kind: kind.Kind}) {
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
