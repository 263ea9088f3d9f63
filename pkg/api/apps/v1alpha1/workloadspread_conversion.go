package v1alpha1

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/conversion"

	"github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// ConvertTo converts the object to the stored version. Values are not validated: a single
// object that cannot be converted would make every list request fail.
func (s *WorkloadSpread) ConvertTo(hub conversion.Hub) error {
	out, ok := hub.(*v1beta1.WorkloadSpread)
	if !ok {
		return fmt.Errorf("convert WorkloadSpread to %T: not the hub", hub)
	}
	out.ObjectMeta = s.ObjectMeta
	out.Spec = v1beta1.WorkloadSpreadSpec{
		TargetReference: s.Spec.TargetReference, TargetFilter: s.Spec.TargetFilter,
		Subsets: each(s.Spec.Subsets, toSubset), ScheduleStrategy: s.Spec.ScheduleStrategy,
	}
	out.Status = v1beta1.WorkloadSpreadStatus{
		ObservedGeneration: s.Status.ObservedGeneration,
		SubsetStatuses:     each(s.Status.SubsetStatuses, toSubsetStatus),
		Conditions:         s.Status.Conditions,
	}
	for version, subsets := range s.Status.VersionedSubsetStatuses {
		if out.Status.VersionedSubsetStatuses == nil {
			out.Status.VersionedSubsetStatuses = map[string]v1beta1.VersionedSubsets{}
		}
		out.Status.VersionedSubsetStatuses[version] = each(subsets, toSubsetStatus)
	}
	return nil
}

// ConvertFrom converts an object of the stored version.
func (s *WorkloadSpread) ConvertFrom(hub conversion.Hub) error {
	in, ok := hub.(*v1beta1.WorkloadSpread)
	if !ok {
		return fmt.Errorf("convert WorkloadSpread from %T: not the hub", hub)
	}
	s.ObjectMeta = in.ObjectMeta
	s.Spec = WorkloadSpreadSpec{
		TargetReference: in.Spec.TargetReference, TargetFilter: in.Spec.TargetFilter,
		Subsets: each(in.Spec.Subsets, fromSubset), ScheduleStrategy: in.Spec.ScheduleStrategy,
	}
	s.Status = WorkloadSpreadStatus{
		ObservedGeneration: in.Status.ObservedGeneration,
		SubsetStatuses:     each(in.Status.SubsetStatuses, fromSubsetStatus),
		Conditions:         in.Status.Conditions,
	}
	for version, subsets := range in.Status.VersionedSubsetStatuses {
		if s.Status.VersionedSubsetStatuses == nil {
			s.Status.VersionedSubsetStatuses = map[string]VersionedSubsets{}
		}
		s.Status.VersionedSubsetStatuses[version] = each(subsets, fromSubsetStatus)
	}
	return nil
}

// each converts the items of a list. A missing list stays missing, and an empty list empty.
func each[From, To any](list []From, convert func(From) To) []To {
	if list == nil {
		return nil
	}
	out := make([]To, len(list))
	for i := range list {
		out[i] = convert(list[i])
	}
	return out
}

func toSubset(s WorkloadSpreadSubset) v1beta1.WorkloadSpreadSubset {
	return v1beta1.WorkloadSpreadSubset{
		Name: s.Name, RequiredNodeSelector: s.RequiredNodeSelectorTerm, PreferredNodeSelector: s.PreferredNodeSelectorTerms,
		Tolerations: s.Tolerations, MaxReplicas: s.MaxReplicas, Patch: s.Patch,
	}
}

func fromSubset(s v1beta1.WorkloadSpreadSubset) WorkloadSpreadSubset {
	return WorkloadSpreadSubset{
		Name: s.Name, RequiredNodeSelectorTerm: s.RequiredNodeSelector, PreferredNodeSelectorTerms: s.PreferredNodeSelector,
		Tolerations: s.Tolerations, MaxReplicas: s.MaxReplicas, Patch: s.Patch,
	}
}

func toSubsetStatus(s WorkloadSpreadSubsetStatus) v1beta1.WorkloadSpreadSubsetStatus {
	return v1beta1.WorkloadSpreadSubsetStatus{
		Name: s.Name, Replicas: s.Replicas, MissingReplicas: s.MissingReplicas, CreatingPods: s.CreatingPods, DeletingPods: s.DeletingPods,
		Conditions: each(s.Conditions, func(c SubsetCondition) metav1.Condition { return metav1.Condition(c) }),
	}
}

func fromSubsetStatus(s v1beta1.WorkloadSpreadSubsetStatus) WorkloadSpreadSubsetStatus {
	return WorkloadSpreadSubsetStatus{
		Name: s.Name, Replicas: s.Replicas, MissingReplicas: s.MissingReplicas, CreatingPods: s.CreatingPods, DeletingPods: s.DeletingPods,
		Conditions: each(s.Conditions, func(c metav1.Condition) SubsetCondition { return SubsetCondition(c) }),
	}
}
