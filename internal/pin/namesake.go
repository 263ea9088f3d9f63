package pin

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// ReasonNameTaken is the reason of the events on a PersistentPodState and on a namesake that has
// the reserved addresses of a pod.
const ReasonNameTaken = CauseNameTaken

// NamesakeHolds reports whether a pod that is not of the workload has the addresses that are reserved
// for a recorded pod of its name. A reservation belongs to a name, and names of pods that were
// scaled away are free.
func NamesakeHolds(record appsv1beta1.PodState, pod *corev1.Pod) bool {
	return record.RetainSeconds > 0 && record.UID != "" && pod.UID != record.UID && !workload.Ended(pod) &&
		pod.Spec.NodeName == record.NodeName && record.IPs != "" && sameIPs(Addresses(pod), record.IPs)
}

// namesakes returns which pods of other owners took the addresses of recorded pods. It is remembered
// until the recorded pod is Ready again. fresh are the namesakes that were not known before.
func namesakes(in RecordInput, records map[string]appsv1beta1.PodState, ready map[string]bool) (known map[string]types.UID, fresh []*corev1.Pod) {
	for name, uid := range in.NameTaken {
		if _, recorded := records[name]; recorded && !ready[name] {
			if known == nil {
				known = map[string]types.UID{}
			}
			known[name] = uid
		}
	}
	for name, pod := range in.Namesakes {
		if ready[name] || known[name] == pod.UID {
			continue
		}
		if known == nil {
			known = map[string]types.UID{}
		}
		known[name] = pod.UID
		fresh = append(fresh, pod)
	}
	slices.SortFunc(fresh, func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return known, fresh
}

// NamedLike returns the StatefulSets that would give a pod its name, without its owner: the pod may
// be a namesake of one of theirs.
func NamedLike(pod *corev1.Pod) []workload.Target {
	owner, owned := workload.OwnerOf(pod)
	i := strings.LastIndexByte(pod.Name, '-')
	if owned && owner.Unstable() || i <= 0 {
		return nil
	}
	var targets []workload.Target
	for _, group := range []string{"apps", appsv1beta1.GroupVersion.Group} {
		target := workload.Target{Group: group, Kind: "StatefulSet", Name: pod.Name[:i]}
		if target != owner {
			targets = append(targets, target)
		}
	}
	return targets
}
