package validate

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workload"
)

// templateOf returns an object for a workload of Kubernetes, and where its pod template is once
// the object was read. It returns nothing for other kinds.
func templateOf(t workload.Target) (client.Object, func() *corev1.PodTemplateSpec) {
	o := cluster.NewWorkload(t.GroupKind())
	switch w := o.(type) {
	case nil, *appsv1.DaemonSet: // a pod of each node has no subset
		return nil, nil
	case *appsv1.StatefulSet:
		return o, func() *corev1.PodTemplateSpec { return withClaims(&w.Spec) }
	}
	return o, func() *corev1.PodTemplateSpec {
		template, _ := cluster.MakesPods(o)
		return template
	}
}

// withClaims is the pod template of a StatefulSet with the volumes that its pods get for its claims.
func withClaims(set *appsv1.StatefulSetSpec) *corev1.PodTemplateSpec {
	template := set.Template.DeepCopy()
	for i := range set.VolumeClaimTemplates {
		name := set.VolumeClaimTemplates[i].Name
		template.Spec.Volumes = slices.DeleteFunc(template.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
		template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
	return template
}
