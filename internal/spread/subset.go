package spread

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/utils/ptr"

	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/platform/podpatch"
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
	s := Spread{Name: ws.Name, Adaptive: adaptiveOf(ws.Spec.ScheduleStrategy)}
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

// Spreadable reports whether the pods of an owner may have subsets. A DaemonSet of Kubernetes has a
// pod on each node, and the kubelet owns the pods that show its static pods.
func Spreadable(owner workload.Owner) bool {
	kind := owner.GroupKind()
	return kind != schema.GroupKind{Kind: "Node"} && kind != schema.GroupKind{Group: appsv1.GroupName, Kind: "DaemonSet"}
}

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

// Home is where the pin sends a pod.
type Home struct {
	// Node that is recorded for the pod; nil when it does not exist.
	Node *corev1.Node
	// Place is what the pin requires of the pod's node; nil for nothing. It overrules the spread.
	Place []corev1.NodeSelectorRequirement
	// Room tells that the node has room for the pod. Then no skipped subset keeps the pod from it.
	Room bool
}

// SubsetOf returns the first subset that contains a node, for a pod; "" where none does. Limits
// do not count, and neither do taints by which Kubernetes reports the state of a node.
func SubsetOf(s Spread, pod *corev1.Pod, node *corev1.Node) string {
	if node == nil {
		return ""
	}
	for i := range s.Subsets {
		if newArea(&s.Subsets[i], pod).contains(node) {
			return s.Subsets[i].Name
		}
	}
	return ""
}

// area is the nodes of a subset, for some pods.
type area struct {
	*Subset
	// nodes is nil for all nodes.
	nodes   *nodeaffinity.NodeSelector
	invalid bool
	// pod has the tolerations of the pods.
	pod *corev1.Pod
}

func newArea(s *Subset, pod *corev1.Pod) area {
	a := area{Subset: s}.of(pod)
	if expressions, fields := s.required(); len(expressions)+len(fields) > 0 {
		var err error
		a.nodes, err = nodeaffinity.NewNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{*s.Required}})
		a.invalid = err != nil
	}
	return a
}

// of is the area for another pod; nil for a pod without tolerations of its own.
func (a area) of(pod *corev1.Pod) area {
	a.pod = &corev1.Pod{}
	a.pod.Spec.Tolerations = a.Tolerations
	if pod != nil {
		a.pod.Spec.Tolerations = slices.Concat(a.Tolerations, pod.Spec.Tolerations)
	}
	return a
}

func newAreas(s Spread, pod *corev1.Pod) []area {
	var areas []area
	for i := range s.Subsets {
		areas = append(areas, newArea(&s.Subsets[i], pod))
	}
	return areas
}

// contains reports whether a pod of the subset may run on a node.
func (a area) contains(node *corev1.Node) bool {
	return !a.invalid && (a.nodes == nil || a.nodes.Match(node)) && !fit.Dedicated(node, a.pod)
}

// holds reports whether a pod of the subset can return home.
func (a area) holds(h Home) bool {
	return (h.Node == nil || a.contains(h.Node)) && !a.invalid && a.agrees(h)
}

// agrees reports whether a node can meet both what the subset and what the pin requires. A subset
// that names its nodes agrees with no place beside the one of its node.
func (a area) agrees(h Home) bool {
	expressions, fields := a.required()
	if len(fields) > 0 && !h.consistent() {
		return false
	}
	for _, p := range h.Place {
		if p.Operator != corev1.NodeSelectorOpIn {
			continue
		}
		meets := func(value string) bool {
			return !slices.ContainsFunc(expressions, func(r corev1.NodeSelectorRequirement) bool { return r.Key == p.Key && !fit.Meets(r, value) })
		}
		if !slices.ContainsFunc(p.Values, meets) {
			return false
		}
	}
	return true
}

// takes reports whether a subset that holds a pod's home takes the pod, as far as skips go.
func (a area) takes(h Home) bool {
	if !a.Unschedulable || len(h.Place) > 0 {
		return true
	}
	reason, _ := fit.Obstacle(h.Node, a.pod)
	return h.Room && reason == ""
}

// inPlace leaves out a node that is not in the required place.
func (h Home) inPlace() Home {
	if len(h.Place) > 0 && !h.consistent() {
		h.Node = nil
	}
	return h
}

// known reports whether the pin sends the pod anywhere.
func (h Home) known() bool { return h.Node != nil || len(h.Place) > 0 }

// consistent reports whether the recorded node is in the required place, as far as there is one.
func (h Home) consistent() bool {
	return !slices.ContainsFunc(h.Place, func(r corev1.NodeSelectorRequirement) bool {
		return h.Node == nil || !slices.Contains(r.Values, h.Node.Labels[r.Key])
	})
}

// name is the home as a message names it.
func (h Home) name() string {
	if h.Node != nil {
		return "node " + h.Node.Name
	}
	return "the required place"
}

// PatchOf returns what a subset adds to its pods. match is the value of the annotation with the
// pod's spread and subset.
func PatchOf(s Subset, match string) podpatch.Patch {
	expressions, fields := s.required()
	return podpatch.Patch{
		Annotations: map[string]string{appsv1beta1.AnnotationMatchedSpread: match},
		Required:    expressions, RequiredFields: fields, Preferred: s.Preferred,
		Tolerations: s.Tolerations, Strategic: s.Patch,
	}
}
