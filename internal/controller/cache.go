package controller

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/pin"
)

// CacheOptions keeps in memory only what decisions are made from: ten thousand whole
// pods would be a multiple of the memory that the controller should need.
// Of ConfigMaps it holds the one that names kinds of workload, in these namespaces.
func CacheOptions(kindsIn ...string) cache.Options {
	one := cache.ByObject{
		Field: fields.OneTermEqualSelector("metadata.name", KindsConfigMap), Namespaces: map[string]cache.Config{},
	}
	for _, namespace := range kindsIn {
		one.Namespaces[namespace] = cache.Config{}
	}
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&corev1.ConfigMap{}:             one,
			&corev1.Pod{}:                   {Transform: stripPod},
			&corev1.Node{}:                  {Transform: stripNode},
			&appsv1.StatefulSet{}:           {Transform: stripStatefulSet},
			&limpetv1alpha1.IPReservation{}: {Transform: stripReservation},
			&limpetv1alpha1.NodeIPPool{}:    {Transform: stripPool},
		},
	}
}

func stripPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	slim := &corev1.Pod{ObjectMeta: slimMeta(pod.ObjectMeta)}
	slim.Annotations = pod.Annotations
	slim.OwnerReferences = pod.OwnerReferences
	slim.Spec = corev1.PodSpec{
		NodeName: pod.Spec.NodeName, SchedulingGates: pod.Spec.SchedulingGates, Tolerations: pod.Spec.Tolerations,
	}
	waits := pod.Annotations[pin.AnnotationPlace] != "" && pod.Spec.NodeName == ""
	if waits { // whether it asks for the nodes of its place
		slim.Spec.NodeSelector, slim.Spec.Affinity = pod.Spec.NodeSelector, pod.Spec.Affinity
	}
	slim.Status = corev1.PodStatus{
		Phase: pod.Status.Phase, NominatedNodeName: pod.Status.NominatedNodeName, PodIPs: pod.Status.PodIPs,
	}
	for _, c := range pod.Status.Conditions {
		kept := corev1.PodCondition{Type: c.Type, Status: c.Status}
		switch {
		case c.Type == corev1.PodReady:
		case c.Type == corev1.PodScheduled && waits:
			kept.Reason, kept.Message = c.Reason, c.Message // what keeps it waiting
		default:
			continue
		}
		slim.Status.Conditions = append(slim.Status.Conditions, kept)
	}
	return slim, nil
}

func stripNode(o any) (any, error) {
	node, ok := o.(*corev1.Node)
	if !ok {
		return o, nil
	}
	slim := &corev1.Node{ObjectMeta: slimMeta(node.ObjectMeta)}
	slim.Labels = node.Labels
	slim.Spec = corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable, Taints: node.Spec.Taints, PodCIDRs: node.Spec.PodCIDRs}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			slim.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
		}
	}
	return slim, nil
}

func stripStatefulSet(o any) (any, error) {
	set, ok := o.(*appsv1.StatefulSet)
	if !ok {
		return o, nil
	}
	slim := &appsv1.StatefulSet{ObjectMeta: slimMeta(set.ObjectMeta)}
	slim.Annotations = set.Annotations
	slim.Spec = appsv1.StatefulSetSpec{
		Replicas: set.Spec.Replicas, Ordinals: set.Spec.Ordinals, PodManagementPolicy: set.Spec.PodManagementPolicy,
	}
	slim.Spec.Template.Annotations = set.Spec.Template.Annotations
	slim.Status = appsv1.StatefulSetStatus{Replicas: set.Status.Replicas}
	return slim, nil
}

func stripReservation(o any) (any, error) {
	r, ok := o.(*limpetv1alpha1.IPReservation)
	if !ok {
		return o, nil
	}
	return &limpetv1alpha1.IPReservation{
		ObjectMeta: slimMeta(r.ObjectMeta),
		Status: limpetv1alpha1.IPReservationStatus{
			Node: r.Status.Node, Interface: r.Status.Interface, Pod: r.Status.Pod, PodUID: r.Status.PodUID,
			IPs: r.Status.IPs, Until: r.Status.Until, RetainMinutes: r.Status.RetainMinutes,
		},
	}, nil
}

func stripPool(o any) (any, error) {
	p, ok := o.(*limpetv1alpha1.NodeIPPool)
	if !ok {
		return o, nil
	}
	return &limpetv1alpha1.NodeIPPool{
		ObjectMeta: slimMeta(p.ObjectMeta),
		Status: limpetv1alpha1.NodeIPPoolStatus{
			Node: p.Status.Node, Ranges: p.Status.Ranges, Total: p.Status.Total, Free: p.Status.Free,
		},
	}, nil
}

func slimMeta(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name:              m.Name,
		Namespace:         m.Namespace,
		UID:               m.UID,
		ResourceVersion:   m.ResourceVersion,
		Generation:        m.Generation,
		CreationTimestamp: m.CreationTimestamp,
		DeletionTimestamp: m.DeletionTimestamp,
	}
}
