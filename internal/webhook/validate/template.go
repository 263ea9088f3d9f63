package validate

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/pkg/workload"
)

// templateOf returns an object for a workload of Kubernetes, and where its pod template is once
// the object was read. It returns nothing for other kinds.
func templateOf(t workload.Target) (client.Object, func() *corev1.PodTemplateSpec) {
	switch t.GroupKind() {
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}:
		o := &appsv1.Deployment{}
		return o, func() *corev1.PodTemplateSpec { return &o.Spec.Template }
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "ReplicaSet"}:
		o := &appsv1.ReplicaSet{}
		return o, func() *corev1.PodTemplateSpec { return &o.Spec.Template }
	case schema.GroupKind{Group: appsv1.GroupName, Kind: "StatefulSet"}:
		o := &appsv1.StatefulSet{}
		return o, func() *corev1.PodTemplateSpec { return &o.Spec.Template }
	case schema.GroupKind{Group: batchv1.GroupName, Kind: "Job"}:
		o := &batchv1.Job{}
		return o, func() *corev1.PodTemplateSpec { return &o.Spec.Template }
	}
	return nil, nil
}
