package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/platform/fit"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// StatusParts are the facts that Status needs, of all namespaces or of one. Of books only their presence counts.
var StatusParts = append([]facts.Part{
	facts.Nodes, facts.Pools, facts.Kept, facts.Loans, facts.States, facts.Spreads, facts.Budgets, facts.Divided, facts.Books, facts.Settings,
	facts.Namespaces, facts.Own, facts.Controllers, facts.Agents, facts.Mutating, facts.Validating,
}, facts.Workloads...)

// Program is one of the programs that Limpet runs in the cluster.
type Program struct {
	Name    string `json:"name"`
	Ready   int32  `json:"ready"`
	Desired int32  `json:"desired"`
	Image   string `json:"image,omitempty"`
	// Nodes are those of the ready pods.
	Nodes []string `json:"nodes,omitempty"`
	// NotReady are the other pods, each as its node and its state, such as worker-2: ImagePullBackOff.
	NotReady []string `json:"notReady,omitempty"`
	// Unknown tells that the numbers mean nothing: the program or its pods could not be read.
	Unknown bool `json:"unknown,omitempty"`
}

// NodeLine is one network of one node.
type NodeLine struct {
	Node     string `json:"node"`
	Ready    bool   `json:"ready"`
	Agent    string `json:"agent"`
	Network  string `json:"network,omitempty"`
	Total    int64  `json:"total"`
	Attached int64  `json:"attached"`
	Reserved int64  `json:"reserved"`
	Free     int64  `json:"free"`
}

// Rebuilt counts what became of rebuilt pods.
type Rebuilt struct {
	Kept  int64 `json:"kept"`
	Moved int64 `json:"moved"`
	Lost  int64 `json:"lost"`
}

// StatusReport is the cluster at a glance.
type StatusReport struct {
	Controller Program    `json:"controller"`
	Agent      Program    `json:"agent"`
	Nodes      []NodeLine `json:"nodes"`
	// Workloads, Budgets and Spreads are the numbers of PersistentPodStates,
	// budgets of both kinds and WorkloadSpreads; unset where they are unknown.
	Workloads *int           `json:"workloads,omitempty"`
	Budgets   *int           `json:"budgets,omitempty"`
	Spreads   *int           `json:"spreads,omitempty"`
	Rebuilt   *Rebuilt       `json:"rebuilt,omitempty"`
	Keeping   []Keeping      `json:"keeping,omitempty"`
	Problems  []Problem      `json:"problems"`
	Unread    []facts.Unread `json:"unread,omitempty"`
}

// Well reports whether all parts of Limpet do their work.
func (r StatusReport) Well() bool {
	return !slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Severity == Broken })
}

// Status reports on a whole cluster.
func Status(f *facts.Facts) StatusReport {
	r := StatusReport{
		Controller: program(facts.Controller, f.Own),
		Agent:      program(facts.Agent, f.Own),
		Nodes:      nodeLines(f),
		Workloads:  count(f, facts.States, f.States), Budgets: count(f, facts.Budgets, f.Budgets), Spreads: count(f, facts.Spreads, f.Spreads),
		Problems: []Problem{},
	}
	if r.Budgets != nil {
		*r.Budgets += len(f.Divided)
	}
	if f.Controllers != nil {
		r.Controller.Desired, r.Controller.Image = *cmp.Or(f.Controllers.Spec.Replicas, new(int32(1))), imageOf(f.Controllers.Spec.Template)
	}
	if f.Agents != nil {
		r.Agent.Desired, r.Agent.Image = f.Agents.Status.DesiredNumberScheduled, imageOf(f.Agents.Spec.Template)
	}
	r.Controller.Unknown, r.Agent.Unknown = !read(f, facts.Controllers, facts.Own), !read(f, facts.Agents, facts.Own)
	if read(f, facts.States) {
		r.Rebuilt = rebuilt(f.States)
	}
	missing, unread := served(f)
	var wrong []Problem
	r.Keeping, wrong = keeping(f)
	r.Unread = unread
	r.Problems = append(r.Problems, slices.Concat(
		missing, installed(f, r), nodes(f, r.Nodes), pools(f), records(f), loans(f), budgets(f), spreads(f), wrong, ignored(f, r.Keeping))...)
	slices.SortStableFunc(r.Problems, Worse)
	return r
}

// count is the number of objects of a kind; nil where they were not read.
func count[T any](f *facts.Facts, part facts.Part, objects []T) *int {
	if !read(f, part) {
		return nil
	}
	return new(len(objects))
}

func rebuilt(states []appsv1beta1.PersistentPodState) *Rebuilt {
	r := &Rebuilt{}
	for i := range states {
		if n := states[i].Status.Rebuilds; n != nil {
			r.Kept, r.Moved, r.Lost = r.Kept+n.Kept, r.Moved+n.Moved, r.Lost+n.Lost
		}
	}
	return r
}

// program counts the pods of one of Limpet's programs.
func program(name string, pods []corev1.Pod) Program {
	p := Program{Name: name}
	for i := range pods {
		if pods[i].Labels[facts.LabelName] != name || pods[i].DeletionTimestamp != nil {
			continue
		}
		node := cmp.Or(pods[i].Spec.NodeName, "no node")
		if workload.Ready(&pods[i]) {
			p.Ready++
			p.Nodes = append(p.Nodes, node)
		} else {
			p.NotReady = append(p.NotReady, node+": "+state(&pods[i]))
		}
	}
	slices.Sort(p.Nodes)
	slices.Sort(p.NotReady)
	return p
}

// first names the first pod that is not Ready, with its state and the number of the others; empty for none.
func (p Program) first() string {
	switch n := len(p.NotReady); n {
	case 0:
		return ""
	case 1:
		return " (" + p.NotReady[0] + ")"
	default:
		return fmt.Sprintf(" (%s; and %d more)", p.NotReady[0], n-1)
	}
}

// nodeLines returns a line for each network of each node, and one for a node without a network.
func nodeLines(f *facts.Facts) []NodeLine {
	agents := map[string]string{}
	for i := range f.Own {
		if p := &f.Own[i]; p.Labels[facts.LabelName] == facts.Agent && p.DeletionTimestamp == nil {
			agents[p.Spec.NodeName] = state(p)
		}
	}
	lines, none := []NodeLine{}, "None"
	if !read(f, facts.Own) {
		none = "Unknown"
	}
	for i := range f.Nodes {
		node := &f.Nodes[i]
		line := NodeLine{Node: node.Name, Ready: fit.Ready(node), Agent: cmp.Or(agents[node.Name], none)}
		found := false
		for _, pool := range f.Pools {
			if s := pool.Status; s.Node == node.Name {
				line.Network, line.Total, line.Attached, line.Reserved, line.Free = s.Network, s.Total, s.Attached, s.Reserved, s.Free
				lines, found = append(lines, line), true
			}
		}
		if !found {
			lines = append(lines, line)
		}
	}
	slices.SortFunc(lines, func(a, b NodeLine) int {
		return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.Network, b.Network))
	})
	return lines
}

// state is the state of a pod as one word.
func state(p *corev1.Pod) string {
	switch {
	case workload.Ready(p):
		return "Ready"
	case p.Status.Reason != "":
		return p.Status.Reason
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Waiting != nil && c.State.Waiting.Reason != "" {
			return c.State.Waiting.Reason
		}
	}
	if p.Status.Phase == corev1.PodRunning {
		return "NotReady"
	}
	return cmp.Or(string(p.Status.Phase), "Pending")
}

func imageOf(t corev1.PodTemplateSpec) string {
	if len(t.Spec.Containers) == 0 {
		return ""
	}
	return t.Spec.Containers[0].Image
}
