package budget

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/platform/workload"
)

// Change is what an update or a resize does to a pod.
type Change struct {
	// Restarts: a container stops, at once or at an earlier deadline.
	Restarts bool
	// Marks: the pod gets a label or a condition that makes it count as unavailable.
	Marks bool
	// Released: the controller of the pod controls it no longer.
	Released bool
	// Adopted: other owners decide about a pod that no controller controls.
	Adopted bool
	// Parted: the controller stays, and another owner goes. A pod whose controller does not exist lives as long as another
	// owner does.
	Parted bool
}

// Reowned reports whether the change puts the pod into the hands of the garbage collector: other
// owners decide about the pod, and a user who deletes them, or has named some that do not
// exist, has the pod deleted without a check. Such a change is judged as leaving every
// budget. Adoption by a workload controller of Kubernetes is none, and the garbage collector
// itself takes owners away that are gone. A pod that is released can be adopted by anybody's workload.
func (c Change) Reowned(user string) bool {
	return c.Released || (c.Adopted || c.Parted) && user != userControllerManager && user != userGarbage && !slices.Contains(workloadControllers, user)
}

// Disruptive tells what a change does to a pod.
//
// A changed spec restarts containers, except for fields that no running container sees:
// tolerations, scheduling gates, the grace period, ephemeral containers and the images of
// init containers that have ended. A resize restarts a container only if its resizePolicy
// says RestartContainer for the resource. A new activeDeadlineSeconds counts: it is always
// an earlier one, and the kubelet kills the pod at that time.
func Disruptive(before, after *corev1.Pod) Change {
	was, is := metav1.GetControllerOfNoCopy(before), metav1.GetControllerOfNoCopy(after)
	return Change{
		Restarts: restarts(&before.Spec, &after.Spec),
		Marks:    marks(before, after),
		Released: was != nil && (is == nil || !sameOwner(*was, *is)),
		Adopted:  was == nil && len(after.OwnerReferences) > 0 && (is != nil || loses(before, after)),
		Parted:   was != nil && loses(before, after),
	}
}

// marks reports whether a change adds a label unavailable-pod.kruise.io/…, or turns a Ready pod not Ready:
// OpenKruise does so before it changes a pod in place.
func marks(before, after *corev1.Pod) bool {
	return !marked(before) && marked(after) || Unreadies(before, after)
}

// Unreadies reports whether a change turns a Ready pod not Ready, and tells nothing new of its containers. What a
// container does is told by a kubelet, or by a program in the place of one.
func Unreadies(before, after *corev1.Pod) bool {
	return workload.Ready(before) && !workload.Ready(after) &&
		equality.Semantic.DeepEqual(before.Status.ContainerStatuses, after.Status.ContainerStatuses)
}

// loses reports whether a pod has not all owners any more that it had, or had none. A further owner can only keep a pod
// that has some, and a pod that has lost all is not deleted for that.
func loses(before, after *corev1.Pod) bool {
	return len(before.OwnerReferences) == 0 || slices.ContainsFunc(before.OwnerReferences, func(b metav1.OwnerReference) bool {
		return !slices.ContainsFunc(after.OwnerReferences, func(a metav1.OwnerReference) bool { return sameOwner(a, b) })
	})
}

// sameOwner reports whether two references name one owner for the garbage collector, which looks an owner up by kind and
// name, and compares the UID.
func sameOwner(a, b metav1.OwnerReference) bool {
	return a.UID == b.UID && workload.NewTarget(a.APIVersion, a.Kind, a.Name) == workload.NewTarget(b.APIVersion, b.Kind, b.Name)
}

func restarts(before, after *corev1.PodSpec) bool {
	if resized(before.Containers, after.Containers, before.Resources, after.Resources) {
		return true
	}
	if resized(before.InitContainers, after.InitContainers, before.Resources, after.Resources) {
		return true
	}
	return !equality.Semantic.DeepEqual(visible(before), visible(after))
}

// visible is the part of a spec that running containers see, without cpu and memory.
func visible(spec *corev1.PodSpec) *corev1.PodSpec {
	v := *spec
	v.Tolerations, v.SchedulingGates, v.TerminationGracePeriodSeconds, v.EphemeralContainers = nil, nil, nil, nil
	if v.Resources != nil {
		v.Resources = new(unsized(*v.Resources))
	}
	v.Containers = slices.Clone(v.Containers)
	for i := range v.Containers {
		v.Containers[i].Resources = unsized(v.Containers[i].Resources)
	}
	v.InitContainers = slices.Clone(v.InitContainers)
	for i := range v.InitContainers {
		c := &v.InitContainers[i]
		c.Resources = unsized(c.Resources)
		if !sidecar(c) {
			c.Image = ""
		}
	}
	return &v
}

// sidecar reports whether an init container runs beside the other containers.
func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}

// sizes are the resources that a pod can get more or less of while it runs.
var sizes = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// unsized is a set of resources without cpu and memory.
func unsized(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	r.Requests, r.Limits = withoutSizes(r.Requests), withoutSizes(r.Limits)
	return r
}

func withoutSizes(list corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, quantity := range list {
		if !slices.Contains(sizes, name) {
			out[name] = quantity
		}
	}
	return out
}

// resized reports whether a container restarts because its own resources change, or those of
// the pod, which bound each container without a limit.
func resized(before, after []corev1.Container, podBefore, podAfter *corev1.ResourceRequirements) bool {
	for i := range min(len(before), len(after)) {
		for _, policy := range after[i].ResizePolicy {
			if policy.RestartPolicy != corev1.RestartContainer {
				continue
			}
			if differs(policy.ResourceName, &before[i].Resources, &after[i].Resources) ||
				differs(policy.ResourceName, podBefore, podAfter) {
				return true
			}
		}
	}
	return false
}

// differs reports whether the request or the limit of one resource changes.
func differs(name corev1.ResourceName, before, after *corev1.ResourceRequirements) bool {
	if before == nil || after == nil {
		return before != after
	}
	return !same(before.Requests, after.Requests, name) || !same(before.Limits, after.Limits, name)
}

func same(before, after corev1.ResourceList, name corev1.ResourceName) bool {
	b, inBefore := before[name]
	a, inAfter := after[name]
	return inBefore == inAfter && b.Cmp(a) == 0
}
