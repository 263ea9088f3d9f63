package budget

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/platform/fit"
)

// taint is Taint if nothing but the taints of a dead node can evict the pod, and AdminTaint
// otherwise: also when no such taint is known.
func (f *Facts) taint() Vector {
	evicting := 0
	for i := range f.Taints {
		t := &f.Taints[i]
		if t.Effect != corev1.TaintEffectNoExecute || f.tolerates(t) {
			continue
		}
		if !fit.Dead(*t) {
			return AdminTaint
		}
		evicting++
	}
	if evicting == 0 {
		return AdminTaint
	}
	return Taint
}

// tolerates reports whether the pod tolerates a taint without an end. The shortest of all
// matching tolerations counts for the taint manager.
func (f *Facts) tolerates(taint *corev1.Taint) bool {
	if f.Pod == nil {
		return false
	}
	found := false
	for i := range f.Pod.Spec.Tolerations {
		t := &f.Pod.Spec.Tolerations[i]
		if !matches(t, taint) {
			continue
		}
		if t.TolerationSeconds != nil {
			return false
		}
		found = true
	}
	return found
}

// matches reports whether a toleration names a taint. The operators Lt and Gt, which have a
// gate, are taken as no match: the pod is then judged.
func matches(t *corev1.Toleration, taint *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case "", corev1.TolerationOpEqual:
		return t.Value == taint.Value
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpLt, corev1.TolerationOpGt:
	}
	return false
}
