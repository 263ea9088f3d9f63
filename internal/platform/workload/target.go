package workload

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Target is a workload within a namespace, whatever API version names it.
type Target struct{ Group, Kind, Name string }

// String is the target as one word, which is also its key in indexes.
func (t Target) String() string { return t.Group + "/" + t.Kind + "/" + t.Name }

// GroupKind is the kind of the target.
func (t Target) GroupKind() schema.GroupKind { return schema.GroupKind{Group: t.Group, Kind: t.Kind} }

// unstable are the kinds of Kubernetes, by group, whose pods never return under their
// names. Other groups may have kinds of the same names whose pods do return.
var unstable = map[string][]string{
	"":      {"ReplicationController", "Node"},
	"apps":  {"ReplicaSet", "DaemonSet"},
	"batch": {"Job"},
}

// Unstable reports whether Kubernetes never gives the workload's pods the same name again.
func (t Target) Unstable() bool {
	return slices.Contains(unstable[t.Group], t.Kind)
}

// TargetOf returns the workload that an object of the API refers to.
func TargetOf(ref appsv1beta1.TargetReference) Target {
	return NewTarget(ref.APIVersion, ref.Kind, ref.Name)
}

// OwnerOf returns the workload that controls a pod; false for a pod without a controller.
func OwnerOf(pod *corev1.Pod) (Target, bool) {
	owner, ok := ControllerOf(pod)
	return owner.Target, ok
}

// NewTarget drops the version of an apiVersion. An apiVersion that cannot be parsed
// becomes the group, which no supported kind has.
func NewTarget(apiVersion, kind, name string) Target {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		gv.Group = apiVersion
	}
	return Target{Group: gv.Group, Kind: kind, Name: name}
}

// ControllerOf returns the object that controls another one; false where there is none.
func ControllerOf(o metav1.Object) (Owner, bool) {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil {
		return Owner{}, false
	}
	return Owner{Target: NewTarget(ref.APIVersion, ref.Kind, ref.Name), UID: ref.UID}, true
}
