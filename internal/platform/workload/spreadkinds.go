package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// SpreadKind is a kind of workload whose pods are spread, as a user named it.
type SpreadKind struct {
	schema.GroupVersionKind
	// Between are the kinds that may stand between the workload and its pods.
	Between []schema.GroupVersionKind
	// ReplicasPath is where the workload says how many pods it wants; "" for its scale subresource.
	ReplicasPath string
}

// SpreadKinds are the kinds of workload that a user named for spreads. The zero value has none.
type SpreadKinds struct {
	Named []SpreadKind
	// Problem says why some of the named kinds are missing; empty when none are.
	Problem string
}

// Contains reports whether a kind is named, in any version.
func (k SpreadKinds) Contains(kind schema.GroupKind) bool { return k.find(kind) != nil }

// PathOf returns where workloads of a kind say how many pods they want; "" where that is not named.
func (k SpreadKinds) PathOf(kind schema.GroupKind) string {
	if named := k.find(kind); named != nil {
		return named.ReplicasPath
	}
	return ""
}

// BetweenOf returns the kinds that may stand between a workload of a kind and its pods.
func (k SpreadKinds) BetweenOf(kind schema.GroupKind) []schema.GroupVersionKind {
	if named := k.find(kind); named != nil {
		return named.Between
	}
	return nil
}

// Above returns the kinds of workload whose pods may belong to an object of a kind.
func (k SpreadKinds) Above(kind schema.GroupKind) (above []schema.GroupKind) {
	for i := range k.Named {
		if slices.ContainsFunc(k.Named[i].Between, func(b schema.GroupVersionKind) bool { return b.GroupKind() == kind }) {
			above = append(above, k.Named[i].GroupKind())
		}
	}
	return above
}

// All returns each kind that is named, and each kind between, once.
func (k SpreadKinds) All() (all []schema.GroupVersionKind) {
	for i := range k.Named {
		for _, kind := range append([]schema.GroupVersionKind{k.Named[i].GroupVersionKind}, k.Named[i].Between...) {
			if !slices.Contains(all, kind) {
				all = append(all, kind)
			}
		}
	}
	return all
}

func (k SpreadKinds) find(kind schema.GroupKind) *SpreadKind {
	i := slices.IndexFunc(k.Named, func(named SpreadKind) bool { return named.GroupKind() == kind })
	if i < 0 {
		return nil
	}
	return &k.Named[i]
}

// spreadKindList is the JSON of a list of kinds for spreads. The comments of its keys stand in docs/operate/reference.md.
type spreadKindList struct {
	// Workloads are the kinds of workload whose pods are spread, at most 64.
	Workloads []spreadKindKeys `json:"workloads"`
}

// spreadKindKeys are the keys of one kind for spreads.
type spreadKindKeys struct {
	kindKeys
	// SubResources are the kinds that may stand between the workload and its pods, at most 16.
	SubResources []kindKeys `json:"subResources"`
	// ReplicasPath is where the workload says how many pods it wants, such as spec.size. The default is its scale subresource.
	ReplicasPath string `json:"replicasPath"`
}

// Limits of an entry: each kind is watched.
const (
	mostBetween = 16
	longestPath = 253
)

// ParseSpreadKinds parses the list of kinds for spreads that users of OpenKruise keep in a
// ConfigMap:
//
//	{"workloads":[{"Group":"example.com","Version":"v1","Kind":"Game","replicasPath":"spec.size",
//	  "subResources":[{"Group":"example.com","Version":"v1","Kind":"GameRoom"}]}]}
//
// From a list with invalid entries it returns the valid ones, and an error.
func ParseSpreadKinds(text string) ([]SpreadKind, error) {
	if text == "" {
		return nil, nil
	}
	var list spreadKindList
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("%w: %w", errKinds, err)
	}
	var kinds []SpreadKind
	some, errs := firstOf(list.Workloads)
	for i, o := range some {
		kind := SpreadKind{GroupVersionKind: schema.GroupVersionKind(o.kindKeys), ReplicasPath: o.ReplicasPath}
		for _, b := range o.SubResources {
			kind.Between = append(kind.Between, schema.GroupVersionKind(b))
		}
		switch problem := kind.problem(); {
		case problem != "":
			errs = append(errs, fmt.Errorf("%w: workloads[%d] %s", errKinds, i, problem))
		default:
			kinds = append(kinds, kind)
		}
	}
	return kinds, errors.Join(errs...)
}

// problem says what is wrong with an entry; "" for a valid one.
func (k SpreadKind) problem() string {
	if k.Version == "" || k.Kind == "" {
		return "needs a Version and a Kind"
	}
	for _, never := range []schema.GroupKind{{Kind: "Pod"}, {Kind: "Node"}, {Group: appsv1.GroupName, Kind: "DaemonSet"}} {
		if never == k.GroupKind() {
			return fmt.Sprintf("is %s of Group %q, whose pods are never spread", k.Kind, k.Group)
		}
	}
	for i, b := range k.Between {
		if b.Version == "" || b.Kind == "" || b.Group == corev1.GroupName {
			return fmt.Sprintf("needs a Group, a Version and a Kind in subResources[%d]", i)
		}
	}
	if len(k.Between) > mostBetween {
		return fmt.Sprintf("has more than %d subResources", mostBetween)
	}
	if k.ReplicasPath != "" && (len(k.ReplicasPath) > longestPath || slices.Contains(strings.Split(k.ReplicasPath, "."), "")) {
		return "needs names or numbers that are separated by dots in replicasPath, such as spec.replicas"
	}
	return ""
}
