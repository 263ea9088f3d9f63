package spread

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/limpet-io/limpet/internal/platform/podpatch"
)

// AdoptInput are pods of one revision that were there before the spread.
type AdoptInput struct {
	Spread Spread
	// Pods are active, run on nodes, and have no subset of the spread yet.
	Pods []*corev1.Pod
	// Nodes of the pods, by name.
	Nodes map[string]*corev1.Node
	// Slots that pods with a subset use, by the name of the subset.
	Slots map[string]Slots
}

// Weights of what speaks for a subset.
const (
	weightPreferred = 100 // for each unit of the weights of preferred terms that the node meets
	weightEqual     = 10  // the patch of the subset changes nothing of the pod but annotations
	weightFree      = 1   // the subset has a free slot
)

// Adopt returns the subsets of the pods that fit into one, by the UIDs of the pods. The oldest
// pods choose first. Of two subsets that are equally good the first one gets the pod.
func Adopt(in AdoptInput) map[types.UID]string {
	pods := slices.SortedFunc(slices.Values(in.Pods), func(a, b *corev1.Pod) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	a := adoption{choice: choice{spread: in.Spread, slots: map[string]Slots{}}, preferred: map[scored]int64{}, areas: newAreas(in.Spread, nil)}
	maps.Copy(a.slots, in.Slots)
	adopted := map[types.UID]string{}
	for _, pod := range pods {
		node := in.Nodes[pod.Spec.NodeName]
		if node == nil {
			continue
		}
		if name := a.best(pod, node); name != "" {
			adopted[pod.UID] = name
			used := a.slots[name]
			used.Pods++
			a.slots[name] = used
		}
	}
	return adopted
}

// adoption is the state of Adopt.
type adoption struct {
	choice
	areas     []area
	preferred map[scored]int64
}

// scored is a subset and a node, for which the preferred terms are computed once.
type scored struct {
	subset int
	node   *corev1.Node
}

// best returns the subset that suits a pod best; "" for none.
func (a adoption) best(pod *corev1.Pod, node *corev1.Node) string {
	var fitting []int
	for i := range a.areas {
		if a.areas[i].of(pod).contains(node) {
			fitting = append(fitting, i)
		}
	}
	if len(fitting) == 0 {
		return ""
	}
	best, most := fitting[0], int64(-1)
	for _, i := range fitting {
		if len(fitting) == 1 {
			break // a patch need not be applied to know it
		}
		if score := a.score(i, pod, node); score > most {
			best, most = i, score
		}
	}
	return a.areas[best].Name
}

func (a adoption) score(i int, pod *corev1.Pod, node *corev1.Node) int64 {
	s := a.areas[i].Subset
	preferred, known := a.preferred[scored{i, node}]
	if !known {
		if terms, err := nodeaffinity.NewPreferredSchedulingTerms(s.Preferred); err == nil {
			preferred = terms.Score(node)
		}
		a.preferred[scored{i, node}] = preferred
	}
	score := weightPreferred * preferred
	if s.Patch != nil && unchanged(pod, s.Patch) {
		score += weightEqual
	}
	if a.free(s) {
		score += weightFree
	}
	return score
}

// unchanged reports whether a patch changes nothing of a pod but annotations.
func unchanged(pod *corev1.Pod, patch []byte) bool {
	before, err := podpatch.Strategic(pod, []byte("{}"))
	if err != nil {
		return false
	}
	after, err := podpatch.Strategic(pod, patch)
	if err != nil {
		return false
	}
	after.Annotations = before.Annotations
	return equality.Semantic.DeepEqual(before, after)
}

// ownDomains are the domains of labels and annotations that only controllers write.
var ownDomains = []string{"limpet.dev", "kruise.io", "kubernetes.io", "k8s.io"}

// MetadataOf returns the labels and annotations in the patch of a subset, which an adopted pod
// gets. Those of controllers are left out: a user who may write a spread need not be allowed to
// change pods.
func MetadataOf(s Subset) (labels, annotations map[string]string) {
	var patch struct {
		Metadata struct{ Labels, Annotations map[string]any }
	}
	if s.Patch == nil || json.Unmarshal(s.Patch, &patch) != nil {
		return nil, nil
	}
	return texts(patch.Metadata.Labels), texts(patch.Metadata.Annotations)
}

// texts returns the values that are texts, as directives and removals are not.
func texts(all map[string]any) map[string]string {
	out := map[string]string{}
	for key, value := range all {
		domain, _, qualified := strings.Cut(key, "/")
		own := qualified && slices.ContainsFunc(ownDomains, func(d string) bool { return domain == d || strings.HasSuffix(domain, "."+d) })
		if text, ok := value.(string); ok && !own && !strings.HasPrefix(key, "$") {
			out[key] = text
		}
	}
	return out
}
