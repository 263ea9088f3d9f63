package main

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/conversion"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// unservedVersion is the first version of the CRDs that OpenKruise also has; see deploy/crds. No client gets it, but Kubernetes
// 1.30 keeps a cache of the objects in each version, and asks for a conversion each second until it has one.
const unservedVersion = "limpet"

// unserved is an object in that version: its metadata alone, so that the cache is small.
type unserved struct{ metav1.PartialObjectMetadata }

// ConvertTo always fails: no object is stored in the version.
func (*unserved) ConvertTo(conversion.Hub) error {
	return errors.New("no object is stored in the version " + unservedVersion)
}

// ConvertFrom takes the metadata.
func (u *unserved) ConvertFrom(hub conversion.Hub) error {
	o, err := meta.Accessor(hub)
	if err != nil {
		return fmt.Errorf("read metadata: %w", err)
	}
	u.ObjectMeta = meta.AsPartialObjectMetadata(o).ObjectMeta
	return nil
}

// addUnserved makes a scheme know the version.
func addUnserved(scheme *runtime.Scheme) {
	for group, kinds := range map[string][]string{
		appsv1beta1.GroupVersion.Group: {"PersistentPodState", "WorkloadSpread"}, policyv1beta1.GroupVersion.Group: {"PodUnavailableBudget"},
	} {
		for _, kind := range kinds {
			scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: group, Version: unservedVersion, Kind: kind}, &unserved{})
		}
	}
}
