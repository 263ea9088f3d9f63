package keepnodes

import (
	"bytes"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// annotations keep cluster-autoscaler and Karpenter from removing a node, while their value is "true".
var annotations = []string{"cluster-autoscaler.kubernetes.io/scale-down-disabled", "karpenter.sh/do-not-disrupt"}

// Change is what a Node shall have of our annotations; without Keys none.
type Change struct {
	Node *corev1.Node
	Keys []string
}

// Input is what Plan reads.
type Input struct {
	Nodes    []*corev1.Node
	Reserves map[string]bool         // names of Nodes that hold reservations
	Away     map[types.UID]time.Time // since when a Node is not Ready
	Now      time.Time
}

// patience is how long a Node that is not Ready stays kept. A reboot is no loss, and when many nodes fall silent at once, none
// is written. cluster-autoscaler waits for twice as long.
const patience = 10 * time.Minute

// Plan returns the Nodes whose annotations change, by name. A Node that is not Ready for long may go: its agent may not tell
// that reservations have ended. An annotation of others stays as it is, whatever its value.
func Plan(in Input) (changes []Change) {
	for _, n := range in.Nodes {
		since, away := in.Away[n.UID]
		if away && in.Reserves[n.Name] && in.Now.Sub(since) < patience {
			continue
		}
		var has, wants []string
		for _, key := range annotations {
			ours := owns(n, key)
			if ours {
				has = append(has, key)
			}
			if _, there := n.Annotations[key]; in.Reserves[n.Name] && !away && (ours || !there) {
				wants = append(wants, key)
			}
		}
		if !slices.Equal(has, wants) {
			changes = append(changes, Change{n, wants})
		}
	}
	slices.SortFunc(changes, func(a, b Change) int { return strings.Compare(a.Node.Name, b.Node.Name) })
	return changes
}

// owns reports whether this room applied an annotation, and no other writer has changed its value.
func owns(n *corev1.Node, key string) bool {
	return slices.ContainsFunc(n.ManagedFields, func(f metav1.ManagedFieldsEntry) bool {
		return applied(f) && f.FieldsV1 != nil && bytes.Contains(f.FieldsV1.GetRawBytes(), []byte(`"f:`+key+`"`))
	})
}

// applied reports whether this room made an entry. An apply takes nothing away that was written otherwise under its name.
func applied(f metav1.ManagedFieldsEntry) bool {
	return f.Manager == manager && f.Operation == metav1.ManagedFieldsOperationApply
}
