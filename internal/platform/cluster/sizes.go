package cluster

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/workload"
)

// DeploymentSize keeps how many pods a Deployment wants, and how it replaces them.
func DeploymentSize(from, to *appsv1.Deployment) {
	to.Spec.Replicas, to.Spec.Strategy = from.Spec.Replicas, from.Spec.Strategy
}

// StatefulSetSize keeps how many pods a StatefulSet wants.
func StatefulSetSize(from, to *appsv1.StatefulSet) {
	to.Spec.Replicas, to.Spec.Ordinals = from.Spec.Replicas, from.Spec.Ordinals
}

// ReplicaSetSize keeps how many pods a ReplicaSet wants.
func ReplicaSetSize(from, to *appsv1.ReplicaSet) { to.Spec.Replicas = from.Spec.Replicas }

// ReplicationControllerSize keeps how many pods a ReplicationController wants and has, and their labels.
func ReplicationControllerSize(from, to *corev1.ReplicationController) {
	to.Spec.Replicas, to.Status.Replicas, to.Spec.Template = from.Spec.Replicas, from.Status.Replicas, &corev1.PodTemplateSpec{}
	if from.Spec.Template != nil {
		to.Spec.Template.Labels = boundedLabels(from.Spec.Template.Labels)
	}
}

// Unsized is the number of pods that a workload of a further kind wants whose scale alone tells it.
const Unsized = -1

// shortWorkload returns what features read of a workload of a further kind, in the form of a StatefulSet.
func shortWorkload(of *unstructured.Unstructured) *appsv1.StatefulSet {
	short := &appsv1.StatefulSet{}
	keepIdentity(of, short)
	Owners[client.Object](of, short)
	labels, _, _ := unstructured.NestedStringMap(of.Object, "spec", "template", "metadata", "labels")
	short.Spec.Template.Labels, short.Spec.Replicas = boundedLabels(labels), new(int32(Unsized))
	if n, found := CountAt(of, "spec", "replicas"); found {
		short.Spec.Replicas = &n
	}
	short.Status.Replicas, _ = CountAt(of, "status", "replicas")
	short.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	if policy, _, _ := unstructured.NestedString(of.Object, "spec", "podManagementPolicy"); policy == string(appsv1.OrderedReadyPodManagement) {
		short.Spec.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	}
	return short
}

// CountAt returns a number of pods in a workload of a further kind; false where it tells none.
func CountAt(of *unstructured.Unstructured, path ...string) (int32, bool) {
	n, found, err := unstructured.NestedInt64(of.Object, path...)
	return int32(min(max(n, 0), 1<<30)), found && err == nil
}

// DaemonSetSize keeps how many pods a DaemonSet wants.
func DaemonSetSize(from, to *appsv1.DaemonSet) {
	to.Status.DesiredNumberScheduled = from.Status.DesiredNumberScheduled
}

// JobSize keeps how many pods a Job wants at a time, and how many have succeeded. A Job that has ended wants none.
func JobSize(from, to *batchv1.Job) {
	to.Spec.Parallelism, to.Spec.Completions, to.Spec.Suspend = from.Spec.Parallelism, from.Spec.Completions, from.Spec.Suspend
	to.Status.Succeeded = from.Status.Succeeded
	if JobEnded(from) {
		to.Spec.Parallelism = new(int32(0))
	}
}

// JobEnded reports whether a Job makes no more pods.
func JobEnded(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Status == corev1.ConditionTrue && c.Type != batchv1.JobSuspended
	})
}

// TemplateLabels keeps the labels of the pods that a workload makes. The ReplicaSets of a Deployment have those of the
// Deployment, and there are many.
func TemplateLabels[T client.Object](from, to T) {
	if owner, _ := workload.ControllerOf(from); owner.GroupKind() != (schema.GroupKind{Group: appsv1.GroupName, Kind: "Deployment"}) {
		made, _ := MakesPods(from)
		kept, _ := MakesPods(to)
		kept.Labels = boundedLabels(made.Labels)
	}
}

// Workloads are the kinds of workload of Kubernetes, with an empty object of each.
var Workloads = map[schema.GroupKind]client.Object{
	{Group: appsv1.GroupName, Kind: "StatefulSet"}: &appsv1.StatefulSet{},
	{Group: appsv1.GroupName, Kind: "Deployment"}:  &appsv1.Deployment{},
	{Group: appsv1.GroupName, Kind: "ReplicaSet"}:  &appsv1.ReplicaSet{},
	{Group: appsv1.GroupName, Kind: "DaemonSet"}:   &appsv1.DaemonSet{},
	{Group: batchv1.GroupName, Kind: "Job"}:        &batchv1.Job{},

	{Group: corev1.GroupName, Kind: "ReplicationController"}: &corev1.ReplicationController{},
}

// NewWorkload returns an empty object of a kind of Workloads; nil for any other kind.
func NewWorkload(kind schema.GroupKind) client.Object {
	if o := Workloads[kind]; o != nil {
		return o.DeepCopyObject().(client.Object)
	}
	return nil
}

// MakesPods returns the template of the pods that a workload of Kubernetes makes, and how many it wants; nil and 0 for
// any other object.
func MakesPods(o client.Object) (template *corev1.PodTemplateSpec, wants int32) {
	switch w := o.(type) {
	case *appsv1.StatefulSet:
		return &w.Spec.Template, ptr.Deref(w.Spec.Replicas, 1)
	case *appsv1.Deployment:
		return &w.Spec.Template, ptr.Deref(w.Spec.Replicas, 1)
	case *appsv1.ReplicaSet:
		return &w.Spec.Template, ptr.Deref(w.Spec.Replicas, 1)
	case *appsv1.DaemonSet:
		return &w.Spec.Template, w.Status.DesiredNumberScheduled
	case *corev1.ReplicationController:
		return w.Spec.Template, ptr.Deref(w.Spec.Replicas, 1)
	case *batchv1.Job:
		return &w.Spec.Template, jobWants(w)
	}
	return nil, 0
}

// jobWants returns how many pods a Job wants at a time.
func jobWants(job *batchv1.Job) int32 {
	if ptr.Deref(job.Spec.Suspend, false) {
		return 0
	}
	n := ptr.Deref(job.Spec.Parallelism, 1)
	if job.Spec.Completions != nil {
		n = min(n, *job.Spec.Completions-job.Status.Succeeded)
	}
	return max(n, 0)
}
