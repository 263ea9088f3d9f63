package pin

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// errKinds is returned for a list of kinds that cannot be read.
var errKinds = errors.New("list of workload kinds is malformed")

// Kinds are the kinds of workload whose pods come back under their names. StatefulSets
// of Kubernetes and of OpenKruise are always among them; the zero value holds no others.
type Kinds struct {
	// Named are the others, as somebody named them.
	Named []schema.GroupVersionKind
	// Problem is why not all that were named are among them; empty when they are.
	Problem string
}

// Hold tells whether a target is of one of the kinds, in whatever version.
func (k Kinds) Hold(t Target) bool {
	return builtIn(t) || slices.ContainsFunc(k.Named, func(named schema.GroupVersionKind) bool {
		return named.GroupKind() == schema.GroupKind{Group: t.Group, Kind: t.Kind}
	})
}

func builtIn(t Target) bool {
	return t.Kind == "StatefulSet" && (t.Group == appsv1.GroupName || t.Group == appsv1beta1.GroupVersion.Group)
}

// setKindsInvalid sets ConditionKindsInvalid on states whose target is of a kind that has
// to be named. Also where the kind still counts, by the last list that made sense: a new
// controller will not know that one.
func setKindsInvalid(in RecordInput, conditions *[]metav1.Condition) {
	if in.Kinds.Problem == "" || builtIn(TargetOf(in.State)) {
		meta.RemoveStatusCondition(conditions, appsv1beta1.ConditionKindsInvalid)
		return
	}
	meta.SetStatusCondition(conditions, metav1.Condition{
		Type:               appsv1beta1.ConditionKindsInvalid,
		Status:             metav1.ConditionTrue,
		Reason:             appsv1beta1.ReasonKindsInvalid,
		Message:            in.Kinds.Problem + "; remedy: write it as " + kindsExample,
		ObservedGeneration: in.State.Generation,
		LastTransitionTime: metav1.NewTime(in.Now),
	})
}

// kubernetesGroups are those of Kubernetes' own workloads.
var kubernetesGroups = []string{corev1.GroupName, appsv1.GroupName, batchv1.GroupName}

// kindsExample is a list of kinds that makes sense.
const kindsExample = `{"workloads":[{"Group":"example.com","Version":"v1","Kind":"GameServerSet"}]}`

// ParseKinds reads the list that OpenKruise's users keep in a ConfigMap:
//
//	{"workloads":[{"Group":"example.com","Version":"v1","Kind":"GameServerSet"}]}
//
// Of a list with some entries that make no sense it returns the others, and an error.
func ParseKinds(text string) ([]schema.GroupVersionKind, error) {
	if text == "" {
		return nil, nil
	}
	var list struct {
		Workloads []schema.GroupVersionKind `json:"workloads"`
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("%w: %w", errKinds, err)
	}
	var kinds []schema.GroupVersionKind
	var errs []error
	for i, kind := range list.Workloads {
		switch ofKubernetes := slices.Contains(kubernetesGroups, kind.Group); {
		case kind.Version == "" || kind.Kind == "":
			errs = append(errs, fmt.Errorf("%w: workloads[%d] needs a Version and a Kind", errKinds, i))
			continue
		case ofKubernetes && !builtIn(Target{Group: kind.Group, Kind: kind.Kind}):
			errs = append(errs, fmt.Errorf("%w: workloads[%d] is %s of Group %q, which is Kubernetes' own and whose pods never return "+
				"under their names", errKinds, i, kind.Kind, kind.Group))
			continue
		}
		kinds = append(kinds, kind)
	}
	return kinds, errors.Join(errs...)
}
