package workload

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Ended reports whether all containers of a pod have ended for good.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Alive reports whether a pod exists and is not about to end.
func Alive(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && !Ended(pod) }

// Shows reports whether the status of a pod has all of some addresses. It has none of a second interface.
func Shows(pod *corev1.Pod, ips string) bool {
	return !slices.ContainsFunc(strings.Split(ips, ","), func(ip string) bool { return !slices.Contains(pod.Status.PodIPs, corev1.PodIP{IP: ip}) })
}

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
