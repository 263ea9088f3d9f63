package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// errKinds is returned for a list of kinds that cannot be parsed.
var errKinds = errors.New("list of workload kinds is malformed")

// Kinds are the kinds of workload whose pods come back under their names. The
// StatefulSets of Kubernetes and of OpenKruise always belong to them; the zero value has
// no others.
type Kinds struct {
	// Named are the other kinds, as a user named them.
	Named []schema.GroupVersionKind
	// Problem says why some of the named kinds are missing; empty when none are.
	Problem string
}

// Contains reports whether a target is of one of the kinds, in any version.
func (k Kinds) Contains(t Target) bool {
	return StatefulSet(t.GroupKind()) || slices.ContainsFunc(k.Named, func(named schema.GroupVersionKind) bool {
		return named.GroupKind() == t.GroupKind()
	})
}

// StatefulSet reports whether a kind is the StatefulSet of Kubernetes or that of OpenKruise.
func StatefulSet(kind schema.GroupKind) bool {
	return kind.Kind == "StatefulSet" && (kind.Group == appsv1.GroupName || kind.Group == appsv1beta1.GroupVersion.Group)
}

// kubernetesGroups are the API groups of the workloads of Kubernetes.
var kubernetesGroups = []string{corev1.GroupName, appsv1.GroupName, batchv1.GroupName}

// kindList is the JSON of a list of kinds. The comments of its keys stand in docs/operate/reference.md.
type kindList struct {
	// Workloads are the kinds of workload whose pods return under their names, at most 64.
	Workloads []kindKeys `json:"workloads"`
}

// kindKeys are the keys of one kind. OpenKruise writes them with capitals.
type kindKeys struct {
	// Group is the API group of the kind.
	Group string `json:"Group"`
	// Version is a version of the API group that has the kind. It is required.
	Version string `json:"Version"`
	// Kind is the name of the kind. It is required.
	Kind string `json:"Kind"`
}

// KindsExample is a valid list of kinds, for messages.
const KindsExample = `{"workloads":[{"Group":"example.com","Version":"v1","Kind":"GameServerSet"}]}`

// mostKinds bounds a list of kinds: each kind is watched.
const mostKinds = 64

// firstOf returns the entries of a list that count, and an error if there are more.
func firstOf[T any](list []T) (some []T, errs []error) {
	if len(list) <= mostKinds {
		return list, nil
	}
	return list[:mostKinds], []error{fmt.Errorf("%w: workloads[%d] and the later ones are left out", errKinds, mostKinds)}
}

// ParseKinds parses the list that users of OpenKruise keep in a ConfigMap:
//
//	{"workloads":[{"Group":"example.com","Version":"v1","Kind":"GameServerSet"}]}
//
// From a list with invalid entries it returns the valid ones, and an error.
func ParseKinds(text string) ([]schema.GroupVersionKind, error) {
	if text == "" {
		return nil, nil
	}
	var list kindList
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("%w: %w", errKinds, err)
	}
	var kinds []schema.GroupVersionKind
	some, errs := firstOf(list.Workloads)
	for i, keys := range some {
		kind := schema.GroupVersionKind(keys)
		switch ofKubernetes := slices.Contains(kubernetesGroups, kind.Group); {
		case kind.Version == "" || kind.Kind == "":
			errs = append(errs, fmt.Errorf("%w: workloads[%d] needs a Version and a Kind", errKinds, i))
			continue
		case ofKubernetes && !StatefulSet(kind.GroupKind()):
			errs = append(errs, fmt.Errorf("%w: workloads[%d] is %s of Group %q, which is Kubernetes' own and whose pods never return "+
				"under their names", errKinds, i, kind.Kind, kind.Group))
			continue
		}
		kinds = append(kinds, kind)
	}
	return kinds, errors.Join(errs...)
}
