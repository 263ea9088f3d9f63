package validate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/limpet-io/limpet/internal/platform/podpatch"
	"github.com/limpet-io/limpet/internal/platform/review"
)

// Limits of what is applied to each new pod.
const (
	mostPatch    = 64 << 10
	mostTemplate = 256 << 10 // larger ones are not compared with patches
)

// patchable are the fields of a pod's metadata that a patch may change. The others say which
// pod it is, and whose.
var patchable = []string{"annotations", "finalizers", "labels"}

// someTemplate stands for a template that is not known. Items of a list are compared with those of
// the patch only where the list is not empty.
var someTemplate = &corev1.PodTemplateSpec{Spec: corev1.PodSpec{
	InitContainers: []corev1.Container{{Name: "some"}},
	Containers:     []corev1.Container{{Name: "some"}},
	Volumes:        []corev1.Volume{{Name: "some"}},
}}

// judgePatch refuses a patch that applies to no pod.
func judgePatch(raw []byte, path *field.Path) field.ErrorList {
	if len(raw) == 0 {
		return nil
	}
	if len(raw) > mostPatch {
		return field.ErrorList{field.TooLong(path, "", mostPatch)}
	}
	var patch struct {
		Metadata map[string]any  `json:"metadata"`
		Status   json.RawMessage `json:"status"`
		Patch    json.RawMessage `json:"$patch"`
	}
	if err := json.Unmarshal(raw, &patch); err != nil {
		return field.ErrorList{field.Invalid(path, review.Short(string(raw)), "must be an object with fields of a pod, such as metadata and spec")}
	}
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(patch.Metadata)) {
		if !slices.Contains(patchable, key) {
			errs = append(errs, field.Forbidden(path.Child("metadata").Key(review.Short(key)), "of metadata a patch may change "+strings.Join(patchable, ", ")))
		}
	}
	if patch.Status != nil {
		errs = append(errs, field.Forbidden(path.Child("status"), "a new pod has no status; remedy: leave it out"))
	}
	if patch.Patch != nil {
		errs = append(errs, field.Forbidden(path.Key("$patch"), "would replace or delete the pod as a whole; remedy: name the fields that differ"))
	}
	if len(errs) > 0 {
		return errs
	}
	pod, err := patched(someTemplate, raw)
	if err != nil {
		return field.ErrorList{field.Invalid(path, review.Short(string(raw)), err.Error())}
	}
	return judgePod(podOf(someTemplate), pod, true, raw, path)
}

// judgeOnTemplate refuses a patch that makes an invalid pod from the template of the workload.
func judgeOnTemplate(template *corev1.PodTemplateSpec, raw []byte, path *field.Path) field.ErrorList {
	pod, err := patched(template, raw)
	if err != nil {
		return field.ErrorList{field.Invalid(path, review.Short(string(raw)), err.Error())}
	}
	if len(pod.Spec.Containers) == 0 {
		return field.ErrorList{field.Invalid(path, review.Short(string(raw)), "leaves the pod without containers")}
	}
	var errs field.ErrorList
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Image == "" {
			errs = append(errs, field.Invalid(path, review.Short(string(raw)), fmt.Sprintf(
				"adds the container %s without an image; remedy: an image, or the name of a container of the workload", known(raw, fmt.Sprintf("%q", review.Short(c.Name))))))
		}
	}
	if len(errs) > 0 {
		return errs
	}
	return judgePod(podOf(template), pod, false, raw, path)
}

// podOf is a pod of a template, as it reaches the webhook of new pods: the API server has made limits
// the requests of containers that have none.
func podOf(template *corev1.PodTemplateSpec) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: *template.Spec.DeepCopy()}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			for name, limit := range r.Limits {
				if _, set := r.Requests[name]; set {
					continue
				}
				if r.Requests == nil {
					r.Requests = corev1.ResourceList{}
				}
				r.Requests[name] = limit
			}
		}
	}
	return pod
}

// patched applies a patch to a pod of a template.
func patched(template *corev1.PodTemplateSpec, raw []byte) (*corev1.Pod, error) {
	after, err := mergedInto(template, raw)
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	if err := json.Unmarshal(after, pod); err != nil {
		return nil, fmt.Errorf("must have the fields of a pod: %w", err)
	}
	return pod, nil
}

func mergedInto(template *corev1.PodTemplateSpec, raw []byte) ([]byte, error) {
	before, err := json.Marshal(podOf(template))
	if err != nil {
		return nil, fmt.Errorf("encode pod template: %w", err)
	}
	after, err := podpatch.Apply(before, raw)
	if err != nil {
		return nil, fmt.Errorf("must be a strategic merge patch of a pod: %w", err)
	}
	return after, nil
}

// unknownIn returns the first field of a patch that pods do not have; "" without one. A later
// Kubernetes may have the field.
func unknownIn(raw []byte) string {
	if len(raw) == 0 || len(raw) > mostPatch {
		return ""
	}
	after, err := mergedInto(someTemplate, raw)
	if err != nil {
		return "" // it is refused
	}
	decoder := json.NewDecoder(bytes.NewReader(after))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&corev1.Pod{}); err != nil && strings.Contains(err.Error(), "unknown field") {
		return strings.TrimPrefix(err.Error(), "json: ")
	}
	return ""
}
