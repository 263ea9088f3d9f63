package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/platform/workload"
)

// DrainParts are the facts that PlanDrain needs, of all namespaces.
var DrainParts = append(slices.Clone(HomeParts), facts.StatefulSets, facts.Budgets, facts.Divided, facts.DisruptionBudgets, facts.Books)

// Outcome is what becomes of a pod whose node is drained.
type Outcome string

const (
	// Returns means that the pod waits for its node, and that it comes home with its addresses when the node is
	// uncordoned.
	Returns Outcome = "Returns"
	// Moves means that the pod starts on another node, with another address unless that follows it.
	Moves Outcome = "Moves"
	// Ends means that nothing makes the pod again. kubectl drain asks for --force.
	Ends Outcome = "Ends"
	// Stays means that the pod is one of a DaemonSet or of the kubelet, and is not evicted.
	Stays Outcome = "Stays"
)

// Drained is one pod of a node that is drained.
type Drained struct {
	Namespace string  `json:"namespace"`
	Pod       string  `json:"pod"`
	Node      string  `json:"node"`
	Outcome   Outcome `json:"outcome"`
	// Why explains the outcome.
	Why string `json:"why,omitempty"`
	// Retains tells that the pod asks to keep its addresses.
	Retains bool `json:"retains,omitempty"`
	// Budgets are those that cover the pod.
	Budgets []string `json:"budgets,omitempty"`
	// Wave is the number of the wave in which the pod can go, from 1; 0 for a pod that cannot go.
	Wave int `json:"wave"`
	// Blocked says why the pod cannot go.
	Blocked string   `json:"blocked,omitempty"`
	needs   []*limit // of the names in Budgets
}

// DrainReport is the plan of a drain.
type DrainReport struct {
	Nodes []string  `json:"nodes"`
	Pods  []Drained `json:"pods"`
	// Waves is the number of waves. The pods of a wave can go at the same time; the next wave
	// waits until they are available again.
	Waves int `json:"waves"`
	// LeastWaves is how many waves any order of the pods that can go needs.
	LeastWaves int `json:"leastWaves"`
	// Returns, Moves, Ends and Blocked count the pods.
	Returns int `json:"returns"`
	Moves   int `json:"moves"`
	Ends    int `json:"ends"`
	Blocked int `json:"blocked"`
}

// PlanDrain says what becomes of the pods of some nodes that are drained at the same time. It
// changes nothing. Outcomes are those of now: a node that fails meanwhile changes them.
func PlanDrain(f *facts.Facts, nodes []string) (DrainReport, error) {
	r := DrainReport{Nodes: nodes, Pods: []Drained{}}
	for _, name := range nodes {
		if f.Node(name) == nil {
			return r, fmt.Errorf("node %s does not exist: kubectl get nodes lists the nodes", name)
		}
	}
	all := limitsOf(f)
	for i := range f.Pods {
		pod := &f.Pods[i]
		if !slices.Contains(nodes, pod.Spec.NodeName) || workload.Ended(pod) {
			continue
		}
		d := Drained{Namespace: pod.Namespace, Pod: pod.Name, Node: pod.Spec.NodeName, Retains: retains(pod)}
		d.Outcome, d.Why = outcome(f, pod, nodes)
		if d.Outcome != Stays {
			d.needs = all.needs(pod)
		}
		for _, one := range d.needs {
			d.Budgets = append(d.Budgets, one.name)
		}
		r.Pods = append(r.Pods, d)
	}
	slices.SortFunc(r.Pods, func(a, b Drained) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Pod, b.Pod))
	})
	r.Waves = waves(r.Pods)
	r.LeastWaves = min(max(leastWaves(r.Pods), 1), r.Waves)
	for _, d := range r.Pods {
		switch {
		case d.Outcome == Stays:
		case d.Blocked != "":
			r.Blocked++
		case d.Outcome == Returns:
			r.Returns++
		case d.Outcome == Moves:
			r.Moves++
		default:
			r.Ends++
		}
	}
	return r, nil
}

// outcome says what becomes of one pod, as the webhook decides for the pod that follows it.
func outcome(f *facts.Facts, pod *corev1.Pod, nodes []string) (Outcome, string) {
	owner := metav1.GetControllerOfNoCopy(pod)
	switch {
	case pod.Annotations[corev1.MirrorPodAnnotationKey] != "":
		return Stays, "the kubelet runs it from a file"
	case owner != nil && owner.Kind == "DaemonSet":
		return Stays, "a DaemonSet runs it on each node"
	case owner == nil:
		return Ends, "it has no controller; kubectl drain asks for --force"
	}
	d := home(f, pod, nodes)
	place, along := placeOf(d), ""
	if pin.Follows(pod) {
		along = "; its address follows it"
	}
	switch {
	case len(place) == 0:
		return Moves, d.Message + along
	case slices.ContainsFunc(fit.WithLabels(cluster(f, nodes), place), func(n *corev1.Node) bool {
		reason, _ := fit.Obstacle(n, pod)
		return reason == ""
	}):
		return Moves, "to another node with " + place.String() + along
	}
	return Returns, place.String() + " is required: the pod waits until the node is uncordoned"
}

// placeOf returns the node labels that a plan requires; none where the pod may run anywhere.
func placeOf(d pin.Decision) labels.Set {
	place := labels.Set{}
	for _, r := range d.Patch.Required {
		place[r.Key] = r.Values[0]
	}
	return place
}
