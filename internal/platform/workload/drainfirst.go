package workload

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"

	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Bounds of the annotations limpet.dev/drain-first and limpet.dev/lifecycle.
const (
	leastDrain   = time.Second
	mostDrain    = 10 * time.Minute
	longestHooks = 2 << 10
	mostHooked   = 16 // finalizers of a hook: a pod may have 100 000
)

// drainOf reads for how long a pod is out of service before it goes; 0 for a pod that does not ask.
func drainOf(annotations map[string]string) (time.Duration, error) {
	text, asks := annotations[policyv1beta1.AnnotationDrainFirst]
	if !asks {
		return 0, nil
	}
	d, err := time.ParseDuration(strings.TrimSpace(text))
	if err != nil || d < leastDrain || d > mostDrain {
		return 0, fmt.Errorf("annotation %s: %.32q: write a duration from 1s to 10m, as 10s", policyv1beta1.AnnotationDrainFirst, text)
	}
	return d, nil
}

// hooks are what the annotation limpet.dev/lifecycle says. The names are those of OpenKruise.
type hooks struct {
	PreDelete     *hook `json:"preDelete"`
	InPlaceUpdate *hook `json:"inPlaceUpdate"`
}

// hook keeps a pod while it has one of the labels or finalizers.
type hook struct {
	LabelsHandler     map[string]string `json:"labelsHandler"`
	FinalizersHandler []string          `json:"finalizersHandler"`
	MarkPodNotReady   *bool             `json:"markPodNotReady"`
}

func hooksOf(annotations map[string]string) (h hooks, err error) {
	text, asks := annotations[policyv1beta1.AnnotationLifecycle]
	switch {
	case !asks:
		return h, nil
	case len(text) > longestHooks:
		err = fmt.Errorf("%d bytes: write at most %d", len(text), longestHooks)
	case strings.ContainsAny(text, "&*"): // anchors of YAML make much of little
		err = errors.New("labels and finalizers have neither: write no & and no *")
	default:
		err = yaml.UnmarshalStrict([]byte(text), &h)
	}
	switch {
	case err != nil:
	case h == (hooks{}):
		err = errors.New("nothing is there: write preDelete or inPlaceUpdate")
	default:
		err = errors.Join(h.PreDelete.check("preDelete"), h.InPlaceUpdate.check("inPlaceUpdate"))
	}
	if err != nil {
		return hooks{}, fmt.Errorf("annotation %s: %w", policyv1beta1.AnnotationLifecycle, err)
	}
	return h, nil
}

// check says what is wrong with a hook, and what to write.
func (h *hook) check(name string) error {
	switch {
	case h == nil:
		return nil
	case len(h.LabelsHandler) == 0 && len(h.FinalizersHandler) == 0:
		return fmt.Errorf("%s: nothing keeps the pod: write labelsHandler or finalizersHandler", name)
	case h.MarkPodNotReady != nil && !*h.MarkPodNotReady:
		return fmt.Errorf("%s.markPodNotReady: such a pod is always out of service: write true, or nothing", name)
	}
	if n := len(h.FinalizersHandler); n > mostHooked {
		return fmt.Errorf("%s.finalizersHandler: %d names: write at most %d", name, n, mostHooked)
	}
	for _, f := range h.FinalizersHandler {
		if wrong := validation.IsQualifiedName(f); len(wrong) > 0 || !strings.Contains(f, "/") {
			return fmt.Errorf("%s.finalizersHandler: %.64q: write names as example.com/handler", name, f)
		}
	}
	return metav1validation.ValidateLabels(h.LabelsHandler, field.NewPath(name, "labelsHandler")).ToAggregate()
}

// keeps reports whether the handler has not let a pod go.
func (h *hook) keeps(pod *corev1.Pod) bool {
	for key, value := range h.LabelsHandler {
		if has, is := pod.Labels[key]; is && has == value {
			return true
		}
	}
	return slices.ContainsFunc(h.FinalizersHandler, func(f string) bool { return slices.Contains(pod.Finalizers, f) })
}

// Wait is how a pod is out of service before it goes, or before it is changed in place.
type Wait struct {
	// Most is for how long at most; 0 for a pod that does not ask.
	Most time.Duration
	// Handled tells that a handler may end the wait, and Done that the pod has nothing of it.
	Handled, Done bool
}

// WaitOf reads how a pod waits.
func WaitOf(pod *corev1.Pod, inPlace bool) (Wait, error) {
	drain, err := drainOf(pod.Annotations)
	h, wrong := hooksOf(pod.Annotations)
	if err = errors.Join(err, wrong); err != nil {
		return Wait{}, err
	}
	of := h.PreDelete
	if inPlace {
		of = h.InPlaceUpdate
	}
	if of == nil {
		return Wait{Most: drain}, nil
	}
	return Wait{Most: cmp.Or(drain, mostDrain), Handled: true, Done: !of.keeps(pod)}, nil
}

// Waits reports whether pods with these annotations are out of service before they go or are changed.
func Waits(annotations map[string]string) (bool, error) {
	drain, err := drainOf(annotations)
	h, wrong := hooksOf(annotations)
	return drain > 0 || h != (hooks{}), errors.Join(err, wrong)
}
