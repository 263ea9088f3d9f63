package v1alpha1

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/conversion"

	"github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// ConvertTo converts the object to the stored version. Values are not validated: a single
// object that cannot be converted would make every list request fail.
func (s *PersistentPodState) ConvertTo(hub conversion.Hub) error {
	out, ok := hub.(*v1beta1.PersistentPodState)
	if !ok {
		return fmt.Errorf("convert PersistentPodState to %T: not the hub", hub)
	}
	out.ObjectMeta = s.ObjectMeta
	out.Status = s.Status
	out.Spec = v1beta1.PersistentPodStateSpec{
		TargetReference:                   s.Spec.TargetReference,
		PersistentPodAnnotations:          s.Spec.PersistentPodAnnotations,
		PersistentPodStateRetentionPolicy: v1beta1.RetentionPolicy(s.Spec.PersistentPodStateRetentionPolicy),
	}
	if term := s.Spec.RequiredPersistentTopology; term != nil {
		out.Spec.RequiredPersistentTopology = &v1beta1.NodeTopologyTerm{Keys: term.NodeTopologyKeys}
	}
	for _, item := range s.Spec.PreferredPersistentTopology {
		out.Spec.PreferredPersistentTopology = append(out.Spec.PreferredPersistentTopology, v1beta1.PreferredTopologyTerm{
			Weight: item.Weight, Preference: v1beta1.NodeTopologyTerm{Keys: item.Preference.NodeTopologyKeys},
		})
	}
	return nil
}

// ConvertFrom converts an object of the stored version.
func (s *PersistentPodState) ConvertFrom(hub conversion.Hub) error {
	in, ok := hub.(*v1beta1.PersistentPodState)
	if !ok {
		return fmt.Errorf("convert PersistentPodState from %T: not the hub", hub)
	}
	s.ObjectMeta = in.ObjectMeta
	s.Status = in.Status
	s.Spec = PersistentPodStateSpec{
		TargetReference:                   in.Spec.TargetReference,
		PersistentPodAnnotations:          in.Spec.PersistentPodAnnotations,
		PersistentPodStateRetentionPolicy: string(in.Spec.PersistentPodStateRetentionPolicy),
	}
	if term := in.Spec.RequiredPersistentTopology; term != nil {
		s.Spec.RequiredPersistentTopology = &NodeTopologyTerm{NodeTopologyKeys: term.Keys}
	}
	for _, item := range in.Spec.PreferredPersistentTopology {
		s.Spec.PreferredPersistentTopology = append(s.Spec.PreferredPersistentTopology, PreferredTopologyTerm{
			Weight: item.Weight, Preference: NodeTopologyTerm{NodeTopologyKeys: item.Preference.Keys},
		})
	}
	return nil
}
