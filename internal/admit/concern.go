package admit

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/limpet-io/limpet/internal/platform/workload"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Concern is how much the creation of a pod concerns the controller. The match conditions
// in deploy/controller/webhooks.yaml say the same in CEL, which a test compares.
type Concern int

const (
	// Nothing means that the pod is created without a call.
	Nothing Concern = iota
	// Subset means that the pod may get a subset, if its namespace has spreads. Elsewhere it is
	// created without a call. The label of the namespace says what happens without an answer.
	Subset
	// Preference means that the pod may be pinned or its user warned. Without an answer the
	// pod is created as it is.
	Preference
	// Retention means that the pod asks to keep its address and returns under its name.
	// Without an answer the pod is refused, and its owner tries again.
	Retention
)

// ConcernOf tells how much the creation of a pod concerns the controller.
func ConcernOf(pod *corev1.Pod) Concern {
	_, retains := pod.Annotations[reservation.RetainAnnotation]
	_, mode := pod.Annotations[reservation.ModeAnnotation]
	returns := returnsUnderItsName(pod)
	switch {
	case retains && returns && !pod.Spec.HostNetwork: // such a pod has the addresses of its node
		return Retention
	case retains || mode || returns:
		return Preference
	case mayHaveSubset(pod):
		return Subset
	}
	return Nothing
}

// mayHaveSubset reports whether a spread may cover the pod.
func mayHaveSubset(pod *corev1.Pod) bool {
	owner, owned := workload.ControllerOf(pod)
	return owned && spreadable(owner)
}

// spreadable reports whether the pods of an owner may have subsets. A DaemonSet of Kubernetes has a
// pod on each node, and the kubelet owns the pods that show its static pods.
func spreadable(owner workload.Owner) bool {
	kind := owner.GroupKind()
	return kind != schema.GroupKind{Kind: "Node"} && kind != schema.GroupKind{Group: appsv1.GroupName, Kind: "DaemonSet"}
}

// returnsUnderItsName reports whether a controller may create the pod again under the same
// name. A controller that gives its pods a prefix only has not named the pod yet.
func returnsUnderItsName(pod *corev1.Pod) bool {
	owner, owned := workload.OwnerOf(pod)
	return owned && !owner.Unstable() && pod.Name != ""
}
