package plan

import (
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// PodList is what a source of pods knows of this node.
type PodList struct {
	// Items are the pods, with the fields that Strip keeps.
	Items []corev1.Pod
	// FromCreation is true when the annotations are those of the moment in which the sandbox was
	// created. What the plugin saw at ADD is then as new.
	FromCreation bool
	// Containers are the IDs of all sandboxes that the runtime knows; nil when the source is not the
	// runtime.
	Containers map[string]bool
}

// names returns namespace/name of all pods, and of their owners, and the UIDs of the pods.
func (l PodList) names() map[string]bool {
	names := map[string]bool{}
	for _, p := range l.Items {
		names[string(p.UID)] = true
		names[p.Namespace+"/"+p.Name], names[p.Namespace+"/"+reservation.OwnerName(p.Name, p.Annotations)] = true, true
	}
	return names
}

// podIn reports whether the pod of an attachment is among names. Each network may have a claim of its own, which is no name of
// the pod.
func (a Attachment) podIn(names map[string]bool) bool {
	return names[a.Owner.String()] || names[a.UID] && reservation.ClaimOf(a.Owner.Pod) != ""
}

// Strip returns a pod with the fields that the agent reads. The environment of a pod, and all else,
// is forgotten.
func Strip(p *corev1.Pod) corev1.Pod {
	annotations := maps.Clone(reservation.ShortRequest(p.Annotations)) // a user may write 256 KiB onto each pod
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return key != reservation.RetainAnnotation && key != reservation.KeepAnnotation && key != reservation.ModeAnnotation &&
			(key != reservation.OwnerAnnotation || reservation.OwnerName("", p.Annotations) == "")
	})
	for _, key := range reservation.NetworkSelections {
		if asked := requestsIn(p.Annotations[key]); asked != "" {
			annotations[key] = asked
		}
	}
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, Annotations: annotations,
			OwnerReferences: ownersOf(p), DeletionTimestamp: p.DeletionTimestamp,
		},
		Spec: corev1.PodSpec{NodeName: p.Spec.NodeName},
	}
}

// requestsIn returns which keys of a retention request a selection of networks has in its cni-args.
func requestsIn(selection string) (asked string) {
	for _, key := range []string{reservation.RetainAnnotation, reservation.ModeAnnotation} {
		if strings.Contains(selection, key) {
			asked += key + " "
		}
	}
	return asked
}
