package pin

import (
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Longest lists that the API accepts.
const (
	maxKeys        = 16
	maxPreferred   = 32
	maxAnnotations = 64
)

// Validate returns what is wrong with a PersistentPodState. others are the states of its
// namespace, and may contain the state itself.
func Validate(s *appsv1beta1.PersistentPodState, others []appsv1beta1.PersistentPodState, kinds workload.Kinds) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validateTarget(s, others, kinds, spec.Child("targetRef"))
	if s.Spec.RequiredPersistentTopology == nil && len(s.Spec.PreferredPersistentTopology) == 0 {
		errs = append(errs, field.Required(spec.Child("preferredPersistentTopology"),
			"this or requiredPersistentTopology must be set"))
	}
	if term := s.Spec.RequiredPersistentTopology; term != nil {
		errs = append(errs, validateKeys(term.Keys, spec.Child("requiredPersistentTopology", "keys"))...)
	}
	errs = append(errs, tooMany(spec.Child("preferredPersistentTopology"), len(s.Spec.PreferredPersistentTopology), maxPreferred)...)
	for i, item := range s.Spec.PreferredPersistentTopology {
		path := spec.Child("preferredPersistentTopology").Index(i)
		if item.Weight < minWeight || item.Weight > maxWeight {
			errs = append(errs, field.Invalid(path.Child("weight"), item.Weight, fmt.Sprintf("must be %d to %d", minWeight, maxWeight)))
		}
		errs = append(errs, validateKeys(item.Preference.Keys, path.Child("preference", "keys"))...)
	}
	errs = append(errs, tooMany(spec.Child("persistentPodAnnotations"), len(s.Spec.PersistentPodAnnotations), maxAnnotations)...)
	for i, a := range s.Spec.PersistentPodAnnotations {
		errs = append(errs, validateKey(a.Key, spec.Child("persistentPodAnnotations").Index(i).Child("key"))...)
	}
	_, wrong := ParseRelease(s.Annotations)
	_, wrongReturn := parseReturn(s.Annotations)
	return append(append(errs, wrong...), wrongReturn...)
}

// Unchanged reports whether an update changes nothing that Validate judges, or Warnings.
func Unchanged(before, after *appsv1beta1.PersistentPodState) bool {
	return maps.Equal(judged(before), judged(after)) && equality.Semantic.DeepEqual(before.Spec, after.Spec)
}

// judged are the annotations that Validate and Warnings read.
func judged(s *appsv1beta1.PersistentPodState) map[string]string {
	own := maps.Clone(s.Annotations)
	maps.DeleteFunc(own, func(key, _ string) bool { return !strings.HasPrefix(key, "limpet.dev/") || key == AnnotationForget })
	return own
}

// Warnings returns what is allowed and has no effect.
func Warnings(s *appsv1beta1.PersistentPodState) []string {
	out := unknownAdvice("metadata.annotations", s.Annotations)
	if workload.IsLeftOut(s.Namespace) {
		out = append(out, "metadata.namespace: "+leftOut(s.Namespace))
	}
	for _, key := range []string{AnnotationLeaveAfter, AnnotationLeaveOn, AnnotationReleaseAfter, AnnotationReleaseOn} {
		if _, set := s.Annotations[key]; set && s.Spec.RequiredPersistentTopology == nil {
			out = append(out, fmt.Sprintf("metadata.annotations[%s] does nothing without spec.requiredPersistentTopology: "+
				"no pod waits for a preferred place", key))
		}
	}
	if _, set := s.Annotations[AnnotationReturnAfter]; set && s.Spec.RequiredPersistentTopology != nil {
		out = append(out, fmt.Sprintf("metadata.annotations[%s] does nothing with spec.requiredPersistentTopology: "+
			"a pod waits for a required place", AnnotationReturnAfter))
	}
	return out
}

func validateTarget(s *appsv1beta1.PersistentPodState, others []appsv1beta1.PersistentPodState, kinds workload.Kinds, path *field.Path) field.ErrorList {
	mine := TargetOf(s)
	if !kinds.Contains(mine) {
		known := []string{"StatefulSet of apps/v1", "StatefulSet of apps.kruise.io/v1beta1"}
		for _, k := range kinds.Named {
			known = append(known, k.Kind+" of "+k.GroupVersion().String())
		}
		err := field.NotSupported(path.Child("kind"), s.Spec.TargetReference.Kind+" of "+s.Spec.TargetReference.APIVersion, known)
		err.Detail = strings.TrimSuffix(err.Detail+"; "+kinds.Problem, "; ")
		return field.ErrorList{err}
	}
	for i := range others {
		if o := &others[i]; o.Name != s.Name && o.DeletionTimestamp == nil && TargetOf(o) == mine && !yields(o) {
			err := field.Duplicate(path, mine.Kind+" "+mine.Name)
			err.Detail = "PersistentPodState " + o.Name + " has the same target"
			return field.ErrorList{err}
		}
	}
	return nil
}

func validateKeys(keys []string, path *field.Path) field.ErrorList {
	if len(keys) == 0 {
		return field.ErrorList{field.Required(path, "at least one key must be named")}
	}
	errs := tooMany(path, len(keys), maxKeys)
	for i, key := range keys {
		errs = append(errs, validateKey(key, path.Index(i))...)
	}
	return errs
}

func tooMany(path *field.Path, n, limit int) field.ErrorList {
	if n <= limit {
		return nil
	}
	return field.ErrorList{field.TooMany(path, n, limit)}
}

func validateKey(key string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, problem := range validation.IsQualifiedName(key) {
		errs = append(errs, field.Invalid(path, key, problem))
	}
	return errs
}

func leftOut(namespace string) string {
	return "no pod is pinned in namespace " + namespace + ", because it would wait for the controller; remedy: another namespace"
}

// owns reports whether the workload controls the state.
func owns(workload metav1.Object, s *appsv1beta1.PersistentPodState) bool {
	return metav1.IsControlledBy(s, workload)
}
