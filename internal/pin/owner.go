package pin

import (
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// AskedOwner returns the owner that an annotation asks for, "" for none. A template that was copied from a running pod
// has the completed name.
func AskedOwner(annotations map[string]string) string {
	value := annotations[reservation.OwnerAnnotation]
	return value[strings.LastIndexByte(value, '/')+1:]
}

// CompleteOwner returns the name that an owner has among all of its namespace; "" for an owner that no label could name,
// and for a controller whose name is too long. chain has the controllers of the pod, the nearest first. A pod without one
// shares its owners with the other ones that have none.
func CompleteOwner(pod *corev1.Pod, chain []workload.Owner) string {
	var of workload.Target
	switch {
	case len(chain) > 1 && namedAfter(pod, chain[0].Target, chain[1].Target):
		of = chain[1].Target
	case len(chain) > 0:
		of = chain[0].Target
	}
	owner := AskedOwner(pod.Annotations)
	name := of.String() + "/" + owner
	if !ownerName(owner) || !reservation.IsOwnerName(name) {
		return ""
	}
	return name
}

// ownerName reports whether an owner can have a name.
func ownerName(name string) bool { return len(validation.IsDNS1123Label(name)) == 0 }

// namedAfter reports whether a ReplicaSet or a Job has its name from the Deployment or the CronJob above it. The policy
// limpet-owners knows names only, and says the same in CEL.
func namedAfter(pod *corev1.Pod, below, above workload.Target) bool {
	rest, ok := strings.CutPrefix(below.Name, above.Name+"-")
	switch {
	case below.Group != above.Group || !ok || rest == "":
		return false
	case below.Group == appsv1.GroupName && below.Kind == "ReplicaSet" && above.Kind == "Deployment":
		return rest == pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	}
	return below.Group == batchv1.GroupName && below.Kind == "Job" && above.Kind == "CronJob" && strings.Trim(rest, "0123456789") == ""
}

// NotOwner returns a notice of a pod that asks for an owner and has not its addresses: pods with the completed name of the
// owner are older, or have it alone. It returns false for other pods, and for those of a kind that may name its pods again.
func NotOwner(pod *corev1.Pod, of []corev1.Pod) (Notice, bool) {
	n := Notice{
		Reason: ReasonNotOwner, Namespace: pod.Namespace, Workload: pod.Name, Pod: pod.Name, UID: pod.UID, Node: pod.Spec.NodeName, IPs: Addresses(pod),
	}
	target, owned := workload.OwnerOf(pod)
	if owned {
		n.Workload = target.String()
	}
	completed := reservation.OwnerName("", pod.Annotations) != ""
	for i := range of {
		o := &of[i]
		older := o.CreationTimestamp.Before(&pod.CreationTimestamp) || o.CreationTimestamp.Equal(&pod.CreationTimestamp) && o.Name < pod.Name
		if o.UID != pod.UID && workload.Alive(o) && (older || !completed) {
			n.Other.Namespace, n.Other.Name = o.Namespace, o.Name
		}
	}
	asks := reservation.Asks(pod.Annotations) && AskedOwner(pod.Annotations) != "" && workload.Alive(pod) && !pod.Spec.HostNetwork
	return n, asks && (n.Other.Name != "" || !completed && (!owned || target.Unstable()))
}

// HomeOfOwner returns a state that records the pod where its owner's addresses are, as if it had run there under its own
// name; nil if no holder is on a node that exists. An owner has no PersistentPodState: while no address is kept for it,
// nothing draws its next pod anywhere.
func HomeOfOwner(pod *corev1.Pod, holders []Holder, nodes map[string]*corev1.Node) (*appsv1beta1.PersistentPodState, *corev1.Node) {
	for _, h := range holders {
		if node := nodes[h.Node]; node != nil {
			s := &appsv1beta1.PersistentPodState{Spec: appsv1beta1.PersistentPodStateSpec{PreferredPersistentTopology: hostname()}}
			return RestoreRecord(s, pod.Name, node, holders), node
		}
	}
	return nil, nil
}

// hostname is the topology of pods that return to their node.
func hostname() []appsv1beta1.PreferredTopologyTerm {
	return []appsv1beta1.PreferredTopologyTerm{{
		Weight: generatedWeight, Preference: appsv1beta1.NodeTopologyTerm{Keys: []string{corev1.LabelHostname}},
	}}
}
