package v1alpha1

import (
	"encoding/json"
	"maps"

	"github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// MaxAnnotations is the size of all annotations of an object that the API server accepts, also
// from a conversion.
const MaxAnnotations = 256 * 1024

// decode separates the annotations of a v1alpha1 object into those that are fields in v1beta1
// and the others. encode is the inverse function, and decode that of encode: an annotation is
// a field only in the one form that encode would give it.
func decode(alpha map[string]string) (own, fields map[string]string) {
	own, fields = map[string]string{}, map[string]string{}
	for key, value := range alpha {
		if readable(key, value) {
			fields[key] = value
		} else {
			own[key] = value
		}
	}
	var hidden map[string]string
	if json.Unmarshal([]byte(alpha[AnnotationBesideFields]), &hidden) != nil {
		return normal(own), fields
	}
	shown := maps.Clone(own)
	delete(shown, AnnotationBesideFields)
	maps.Copy(shown, hidden)
	if maps.Equal(encode(shown, fields), alpha) {
		own = shown
	}
	return normal(own), fields
}

// encode joins the annotations of a v1beta1 object and its fields. Annotations that decode
// would take for fields are hidden in one annotation.
func encode(own, fields map[string]string) map[string]string {
	out, hidden := map[string]string{}, map[string]string{}
	for key, value := range own {
		if _, set := fields[key]; set || readable(key, value) {
			hidden[key] = value
		} else {
			out[key] = value
		}
	}
	maps.Copy(out, fields)
	former, had := out[AnnotationBesideFields]
	if had && len(hidden) == 0 {
		if again, said := decode(out); maps.Equal(again, own) && maps.Equal(said, fields) {
			return normal(out) // no decode would look into it
		}
	}
	if had {
		hidden[AnnotationBesideFields] = former
	}
	if len(hidden) > 0 {
		text, _ := json.Marshal(hidden) // a map of strings
		out[AnnotationBesideFields] = string(text)
	}
	return normal(out)
}

// normal returns nil for no annotations, as JSON does not tell the two apart.
func normal(m map[string]string) map[string]string {
	if len(m) == 0 {
		return nil
	}
	return m
}

// bounded returns the annotations, or those of the v1beta1 object alone where the API server
// would accept no more: then every list request would fail. The webhook refuses such objects.
func bounded(all, own map[string]string) map[string]string {
	if Size(all) > MaxAnnotations {
		return own
	}
	return all
}

// Size of annotations as the API server counts it.
func Size(annotations map[string]string) int {
	n := 0
	for key, value := range annotations {
		n += len(key) + len(value)
	}
	return n
}

// SizeOf returns the size that the annotations of an object have in v1alpha1.
func SizeOf(b *v1beta1.PodUnavailableBudget) (int, error) {
	fields, err := write(&b.Spec)
	return Size(encode(b.Annotations, fields)), err
}
