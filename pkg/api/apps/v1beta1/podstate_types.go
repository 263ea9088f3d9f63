package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// PodState is the record of one pod: its place, and the annotations for the rebuilt pod.
type PodState struct {
	// uid is the UID of the pod that was last Ready. A pod of the same name with another UID
	// is a rebuilt one. Written by the controller.
	// +optional
	UID types.UID `json:"uid,omitempty"`

	// recordedAt is when the controller first saw the pod with this uid Ready. A pod that got
	// addresses on another node after this time is a newer one. Written by the controller.
	// +optional
	RecordedAt *metav1.Time `json:"recordedAt,omitempty"`

	// formerUIDs are the UIDs of the last pods of this name that were Ready on other nodes
	// before. Reservations that such nodes still hold for these UIDs are out of date. Written
	// by the controller.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	FormerUIDs []types.UID `json:"formerUIDs,omitempty"`

	// ips are the pod's addresses, separated by commas, to compare with the addresses of the
	// rebuilt pod. Written by the controller.
	// +optional
	IPs string `json:"ips,omitempty"`

	// nodeName is the name of the node on which the pod was last Ready. Written by the
	// controller.
	// +optional
	NodeName string `json:"nodeName,omitempty"`

	// nodeTopologyLabels are the node's values of the labels that the spec names. Written by
	// the controller.
	// +optional
	NodeTopologyLabels map[string]string `json:"nodeTopologyLabels,omitempty"`

	// annotations are the pod's values of the annotations that the spec names. Written by the
	// controller.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// retainSeconds is how long the pod's addresses stay reserved after its end, in seconds,
	// as the pod's annotation asked; 0 without the annotation. Written by the controller.
	// +optional
	// +kubebuilder:validation:Minimum=0
	RetainSeconds int32 `json:"retainSeconds,omitempty"`

	// expiresAt is when the record ends. Written by the controller when the workload does not
	// want the pod any more; removed when it wants the pod again.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// endedAt is since when no pod has the addresses that are reserved for this record. Written by
	// the controller; removed when a pod of this name has them, or is Ready.
	// +optional
	EndedAt *metav1.Time `json:"endedAt,omitempty"`

	// waiting says since when and why the required place does not take the pod. Written by the
	// controller; removed when the pod has a node.
	// +optional
	Waiting *Waiting `json:"waiting,omitempty"`

	// releasedAt is when the pod was released from its required place. Written by the
	// controller; removed when the pod is Ready.
	// +optional
	ReleasedAt *metav1.Time `json:"releasedAt,omitempty"`

	// givenUpUID is the uid of this record once a user gave up the addresses that were reserved
	// for it. A pod that returns with others has not lost these. Another uid than that of the
	// record means nothing. Written by the controller.
	// +optional
	GivenUpUID types.UID `json:"givenUpUID,omitempty"`

	// home is the place that the pod left because its node could not take it, and to which the
	// annotation limpet.dev/return-after brings it back. Written by the controller; removed when
	// the pod is there, or when its addresses are not reserved there any more.
	// +optional
	Home *Home `json:"home,omitempty"`

	// outcome is what became of this pod at its last rebuild, if any. Written by the controller.
	// +optional
	Outcome Outcome `json:"outcome,omitempty"`

	// cause is why that rebuild did not keep the pod, as one word. Written by the controller.
	// +optional
	Cause string `json:"cause,omitempty"`

	// from is the place before that rebuild, if the pod was not kept. Written by the controller.
	// +optional
	From *Place `json:"from,omitempty"`
}

// Home is a place to which a pod may return.
type Home struct {
	// nodeName is the name of the node. Written by the controller.
	// +required
	NodeName string `json:"nodeName"`

	// nodeTopologyLabels are the node's values of the labels that the spec names. Written by
	// the controller.
	// +optional
	NodeTopologyLabels map[string]string `json:"nodeTopologyLabels,omitempty"`

	// uid is the UID of the last pod of this name that was Ready there. Written by the controller.
	// +required
	UID types.UID `json:"uid"`

	// ips are the addresses of that pod, separated by commas. Written by the controller.
	// +optional
	IPs string `json:"ips,omitempty"`

	// until is when the addresses are not reserved any more, at the latest. Written by the
	// controller.
	// +required
	Until metav1.Time `json:"until"`

	// fitSince is since when the node can take the pod; unset while it cannot. Written by the
	// controller.
	// +optional
	FitSince *metav1.Time `json:"fitSince,omitempty"`

	// returningAt is when the controller decided to delete the pod so that it returns. A pod is
	// brought back once. Written by the controller.
	// +optional
	ReturningAt *metav1.Time `json:"returningAt,omitempty"`
}

// Waiting describes a Pending pod whose required place does not take it.
type Waiting struct {
	// since is when the controller first saw the pod wait. The time stays when the pod is
	// rebuilt while it waits. Written by the controller.
	// +required
	Since metav1.Time `json:"since"`

	// reason is why the place does not take the pod, as one word. Written by the controller.
	// +required
	Reason string `json:"reason"`

	// reasonSince is when the reason last changed. Written by the controller.
	// +optional
	ReasonSince *metav1.Time `json:"reasonSince,omitempty"`
}
