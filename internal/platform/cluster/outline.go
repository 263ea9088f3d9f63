package cluster

import corev1 "k8s.io/api/core/v1"

// Outline is what can be read of a pod in the cache without unpacking it.
type Outline struct {
	packed *packedPod
	pod    *corev1.Pod // the pod, or what it shares with others
}

// outlineOf returns the outline of an entry of a store; false for any other object.
func outlineOf(o any) (Outline, bool) {
	switch p := o.(type) {
	case *packedPod:
		return Outline{p, &p.shape.pod}, true
	case *corev1.Pod:
		return Outline{nil, p}, true
	}
	return Outline{}, false
}

// Bound reports whether the pod has a node.
func (o Outline) Bound() bool {
	if o.packed != nil {
		return o.packed.node.Value() != ""
	}
	return o.pod.Spec.NodeName != ""
}

// Ending reports whether the deletion of the pod has begun.
func (o Outline) Ending() bool { return o.pod.DeletionTimestamp != nil }

// Gates returns the scheduling gates of the pod.
func (o Outline) Gates() []corev1.PodSchedulingGate { return o.pod.Spec.SchedulingGates }

// ReadinessGated reports whether the cache keeps a readiness gate of the pod.
func (o Outline) ReadinessGated() bool { return len(o.pod.Spec.ReadinessGates) > 0 }

// Annotated reports whether the cache keeps an annotation of the pod.
func (o Outline) Annotated(name string) bool {
	if o.packed != nil {
		return hasNote(o.packed.notes, name)
	}
	_, ok := o.pod.Annotations[name]
	return ok
}
