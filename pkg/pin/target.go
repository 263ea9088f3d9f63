package pin

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// Target is a workload within a namespace, whatever version it is named in.
type Target struct{ Group, Kind, Name string }

// String is the target as one word, as indexes use it.
func (t Target) String() string { return t.Group + "/" + t.Kind + "/" + t.Name }

// unstable are the kinds, by group, whose pods never return under their names. Others may
// have kinds of these names whose pods do.
var unstable = map[string][]string{
	"":      {"ReplicationController", "Node"},
	"apps":  {"ReplicaSet", "DaemonSet"},
	"batch": {"Job"},
}

// Unstable tells whether Kubernetes never gives the workload's pods the same name again.
func (t Target) Unstable() bool {
	return slices.Contains(unstable[t.Group], t.Kind)
}

// TargetOf returns what a PersistentPodState is for.
func TargetOf(s *appsv1beta1.PersistentPodState) Target {
	return target(s.Spec.TargetReference.APIVersion, s.Spec.TargetReference.Kind, s.Spec.TargetReference.Name)
}

// OwnerOf returns the workload that made a pod; false for a pod of nobody.
func OwnerOf(p *corev1.Pod) (Target, bool) {
	ref := metav1.GetControllerOfNoCopy(p)
	if ref == nil {
		return Target{}, false
	}
	return target(ref.APIVersion, ref.Kind, ref.Name), true
}

// target drops the version. Of an apiVersion that cannot be read it makes a target that
// is not supported.
func target(apiVersion, kind, name string) Target {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		gv.Group = apiVersion
	}
	return Target{Group: gv.Group, Kind: kind, Name: name}
}

// Choose returns the one that counts of the PersistentPodStates with the same target:
// the oldest. It returns nil when there is none.
func Choose(states []appsv1beta1.PersistentPodState) *appsv1beta1.PersistentPodState {
	var first *appsv1beta1.PersistentPodState
	for i := range states {
		if s := &states[i]; first == nil || older(s, first) {
			first = s
		}
	}
	return first
}

func older(a, b *appsv1beta1.PersistentPodState) bool {
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return a.CreationTimestamp.Before(&b.CreationTimestamp)
	}
	return a.Name < b.Name
}
