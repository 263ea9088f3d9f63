package spread

import (
	"errors"
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// ErrSize is returned for a percentage of a workload whose size is not known.
var ErrSize = errors.New("size of the workload is not known")

// defaultRecovery is how long a subset is skipped where the spread does not tell.
const defaultRecovery = 5 * time.Minute

// UnknownSize is the size of a workload that is not known.
const UnknownSize = -1

// Of returns what a WorkloadSpread says for a workload of some size, or of UnknownSize. The
// result shares memory with the object, and must not be changed.
func Of(ws *appsv1beta1.WorkloadSpread, replicas int32) (Spread, error) {
	s := Spread{Name: ws.Name, UID: string(ws.UID), Adaptive: adaptiveOf(ws.Spec.ScheduleStrategy)}
	for i := range ws.Spec.Subsets {
		o := &ws.Spec.Subsets[i]
		limit, err := maximum(o.MaxReplicas, replicas)
		if err != nil {
			return Spread{}, fmt.Errorf("read maxReplicas of subset %s of WorkloadSpread %s: %w", o.Name, ws.Name, err)
		}
		s.Subsets = append(s.Subsets, Subset{
			Name: o.Name, Max: limit, Percent: o.MaxReplicas != nil && o.MaxReplicas.Type == intstr.String, Required: o.RequiredNodeSelector, Preferred: o.PreferredNodeSelector, Tolerations: o.Tolerations,
			Patch: patchOf(o.Patch.Raw), Unschedulable: i < len(ws.Spec.Subsets)-1 && s.skips() && skipped(ws.Status, o.Name),
		})
	}
	return s, nil
}

// patchOf returns a patch; nil for one that changes nothing.
func patchOf(raw []byte) []byte {
	switch string(raw) {
	case "", "null", "{}":
		return nil
	}
	return raw
}

func adaptiveOf(strategy appsv1beta1.WorkloadSpreadScheduleStrategy) *Adaptive {
	if strategy.Type != appsv1beta1.SpreadAdaptive {
		return nil
	}
	a := &Adaptive{Recovery: defaultRecovery}
	if o := strategy.Adaptive; o != nil {
		a.Critical = time.Duration(ptr.Deref(o.RescheduleCriticalSeconds, 0)) * time.Second
		a.Return = o.ReturnPolicy == appsv1beta1.ReturnWhenRecovered
		if o.RecoverySeconds != nil {
			a.Recovery = time.Duration(*o.RecoverySeconds) * time.Second
		}
	}
	return a
}

// skips reports whether the spread ever skips a subset.
func (s Spread) skips() bool { return s.Adaptive != nil && s.Adaptive.Critical > 0 }

// skipped reports whether the status of a spread has a subset as not schedulable.
func skipped(status appsv1beta1.WorkloadSpreadStatus, subset string) bool {
	for i := range status.SubsetStatuses {
		if o := &status.SubsetStatuses[i]; o.Name == subset {
			c := schedulable(o.Conditions)
			return c != nil && c.Status == metav1.ConditionFalse && c.Reason != appsv1beta1.ReasonPodWaits
		}
	}
	return false
}

// schedulable returns the condition Schedulable of a subset; nil where there is none.
func schedulable(conditions []metav1.Condition) *metav1.Condition {
	for i := range conditions {
		if conditions[i].Type == appsv1beta1.ConditionSchedulable {
			return &conditions[i]
		}
	}
	return nil
}

// maximum returns how many pods a subset takes. Percentages are rounded up.
func maximum(limit *intstr.IntOrString, replicas int32) (*int32, error) {
	if limit == nil {
		return nil, nil
	}
	if limit.Type == intstr.String && replicas < 0 {
		return nil, ErrSize
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(limit, int(replicas), true)
	if err != nil {
		return nil, err
	}
	return new(int32(min(max(n, 0), math.MaxInt32))), nil
}

// Covers reports whether a WorkloadSpread is about a pod: whether one of the pod's owners is the
// target, and the filter selects the pod's labels. A filter without a selector selects all pods.
func Covers(ws *appsv1beta1.WorkloadSpread, podLabels map[string]string, chain []workload.Owner) (bool, error) {
	target := workload.TargetOf(ws.Spec.TargetReference)
	owned := false
	for _, owner := range chain {
		owned = owned || owner.Target == target
	}
	filter := ws.Spec.TargetFilter
	if !owned || filter == nil || filter.Selector == nil {
		return owned, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(filter.Selector)
	if err != nil {
		return false, fmt.Errorf("read targetFilter of WorkloadSpread %s: %w", ws.Name, err)
	}
	return selector.Matches(labels.Set(podLabels)), nil
}

// Counted reports whether the pods of a kind of workload are counted, so that Choose decides about
// them. The pods of StatefulSets have ordinals, and Assign decides.
func Counted(kind schema.GroupKind) bool { return !workload.StatefulSet(kind) }

// subset returns the subset of a name; nil where there is none.
func (s Spread) subset(name string) *Subset {
	for i := range s.Subsets {
		if s.Subsets[i].Name == name {
			return &s.Subsets[i]
		}
	}
	return nil
}

// required returns the requirements of a subset about its nodes. A term without any requirement
// is none.
func (s *Subset) required() (expressions, fields []corev1.NodeSelectorRequirement) {
	if s.Required == nil {
		return nil, nil
	}
	return s.Required.MatchExpressions, s.Required.MatchFields
}
