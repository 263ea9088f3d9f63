package v1alpha1

import (
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/conversion"

	"github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// ConvertTo converts the object to the stored version. An annotation that cannot be read
// stays as it is: a single object that cannot be converted would make every list request
// fail.
func (b *PodUnavailableBudget) ConvertTo(hub conversion.Hub) error {
	out, ok := hub.(*v1beta1.PodUnavailableBudget)
	if !ok {
		return fmt.Errorf("convert PodUnavailableBudget to %T: not the hub", hub)
	}
	annotations, fields := decode(b.Annotations)
	out.ObjectMeta = b.ObjectMeta
	out.Annotations = annotations
	out.Status = b.Status
	out.Spec = v1beta1.PodUnavailableBudgetSpec{
		Selector: b.Spec.Selector, MaxUnavailable: b.Spec.MaxUnavailable, MinAvailable: b.Spec.MinAvailable,
	}
	if ref := b.Spec.TargetReference; ref != nil {
		out.Spec.TargetReference = &v1beta1.TargetReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name}
	}
	read(fields, &out.Spec)
	return nil
}

// ConvertFrom converts an object of the stored version.
func (b *PodUnavailableBudget) ConvertFrom(hub conversion.Hub) error {
	in, ok := hub.(*v1beta1.PodUnavailableBudget)
	if !ok {
		return fmt.Errorf("convert PodUnavailableBudget from %T: not the hub", hub)
	}
	fields, err := write(&in.Spec)
	if err != nil {
		return fmt.Errorf("convert PodUnavailableBudget %s: %w", in.Name, err)
	}
	b.ObjectMeta = in.ObjectMeta
	b.Annotations = bounded(encode(in.Annotations, fields), in.Annotations)
	b.Status = in.Status
	b.Spec = PodUnavailableBudgetSpec{
		Selector: in.Spec.Selector, MaxUnavailable: in.Spec.MaxUnavailable, MinAvailable: in.Spec.MinAvailable,
	}
	if ref := in.Spec.TargetReference; ref != nil {
		b.Spec.TargetReference = &TargetReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name}
	}
	return nil
}
