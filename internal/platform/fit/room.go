package fit

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
)

// Requests returns what a pod asks of its node, as the scheduler counts it. A cache keeps the
// sum as the overhead of a pod without containers. The list must not be changed.
func Requests(pod *corev1.Pod) corev1.ResourceList {
	if len(pod.Spec.Containers) == 0 && pod.Spec.Resources == nil {
		return pod.Spec.Overhead
	}
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{
		UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
	})
}

// Shortage returns a resource of which a node has too little left for a pod beside other
// pods; "" when the pod fits. The number of pods is a resource, too. A node that reports no
// resources yet is left to the scheduler, which places no pod there.
func Shortage(node *corev1.Node, pod *corev1.Pod, others []corev1.Pod) corev1.ResourceName {
	room := node.Status.Allocatable
	if len(room) == 0 {
		return ""
	}
	if pods := room[corev1.ResourcePods]; int64(len(others)) >= pods.Value() {
		return corev1.ResourcePods
	}
	asked := Requests(pod).DeepCopy() // quantities share memory otherwise
	maps.DeleteFunc(asked, func(_ corev1.ResourceName, q resource.Quantity) bool { return q.IsZero() })
	for i := range others {
		add(asked, Requests(&others[i]))
	}
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if has := room[name]; has.Cmp(asked[name]) < 0 {
			return name
		}
	}
	return ""
}

// add adds to a list those of some requests that the list has.
func add(list, requests corev1.ResourceList) {
	for name, asked := range requests {
		if sum, counts := list[name]; counts {
			sum.Add(asked)
			list[name] = sum
		}
	}
}
