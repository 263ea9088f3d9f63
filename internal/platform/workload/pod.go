package workload

import corev1 "k8s.io/api/core/v1"

// Ended reports whether all containers of a pod have ended for good.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Alive reports whether a pod exists and is not about to end.
func Alive(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !Ended(pod) }

// Mirrors reports whether a pod shows a static pod of a kubelet, which no request ends.
func Mirrors(pod *corev1.Pod) bool {
	_, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return ok
}

// Ready reports whether a pod has the condition Ready.
func Ready(pod *corev1.Pod) bool {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
