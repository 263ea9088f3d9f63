package console

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/platform/workload"
)

// VersionParts are the facts that Versions needs.
var VersionParts = []facts.Part{facts.Nodes, facts.Own, facts.Controllers, facts.Agents}

// NodeVersion is what runs on a node; empty for nothing.
type NodeVersion struct {
	Node  string `json:"node"`
	Agent string `json:"agent,omitempty"`
	// Plugin is the version of limpet-ipam. An agent is Ready only while the plugin of its own image is installed.
	Plugin string `json:"plugin,omitempty"`
}

// VersionReport compares the versions of the programs.
type VersionReport struct {
	Client     string `json:"client"`
	Controller string `json:"controller,omitempty"`
	// Replicas are the pods of the controller by version.
	Replicas map[string]int `json:"replicas"`
	Nodes    []NodeVersion  `json:"nodes"`
	Problems []Problem      `json:"problems"`
	Unread   []facts.Unread `json:"unread,omitempty"`
}

// Same reports whether the agent and the plugin of each node have the version of the controller.
func (r VersionReport) Same() bool { return StatusReport{Problems: r.Problems}.Well() }

// Versions compares the client with what the tags of the images say.
func Versions(f *facts.Facts, client string) VersionReport {
	r := VersionReport{Client: client, Replicas: map[string]int{}, Nodes: []NodeVersion{}, Problems: []Problem{}, Unread: f.Unread}
	agents := map[string]NodeVersion{}
	for i := range f.Own {
		pod := &f.Own[i]
		container := facts.ContainerOf(pod.Labels, pod.Spec)
		if pod.DeletionTimestamp != nil || container == nil {
			continue
		}
		switch v := tag(container.Image); pod.Labels[facts.LabelName] {
		case facts.Controller:
			r.Replicas[v]++
		case facts.Agent:
			agents[pod.Spec.NodeName] = NodeVersion{Node: pod.Spec.NodeName, Agent: v, Plugin: pluginOf(pod, v)}
		}
	}
	if f.Controllers != nil {
		r.Controller = tag(imageOf(f.Controllers.Spec.Template))
	}
	for i := range f.Nodes {
		if !read(f, facts.Own) {
			break // it is unknown what runs there
		}
		agent := agents[f.Nodes[i].Name]
		agent.Node = f.Nodes[i].Name
		r.Nodes = append(r.Nodes, agent)
	}
	slices.SortFunc(r.Nodes, func(a, b NodeVersion) int { return strings.Compare(a.Node, b.Node) })
	if read(f, VersionParts...) {
		r.compare()
	}
	return r
}

// unknownPlugin is the version of a plugin whose agent is not Ready: it may be that of an earlier agent.
const unknownPlugin = "unknown"

func pluginOf(pod *corev1.Pod, version string) string {
	if workload.Ready(pod) {
		return version
	}
	return unknownPlugin
}

// compare adds what differs from the controller: nodes with one difference together.
func (r *VersionReport) compare() {
	const controller = "Deployment " + facts.Namespace + "/" + facts.Controller
	if r.Controller == "" {
		r.Problems = append(r.Problems, Problem{Broken, controller, "NotInstalled", "limpet-controller is not installed", "kubectl apply -k deploy/default"})
		return
	}
	differ := map[string][]string{}
	for _, n := range r.Nodes {
		var why string
		switch {
		case n.Agent == "":
			why = "no agent runs: the version of the plugin is not known"
		case n.Agent != r.Controller:
			why = fmt.Sprintf("agent and plugin (%s) differ from the controller (%s)", n.Agent, r.Controller)
		case n.Plugin != r.Controller:
			why = "the agent is not Ready: an earlier plugin may be installed"
		default:
			continue
		}
		differ[why] = append(differ[why], n.Node)
	}
	for _, why := range slices.Sorted(maps.Keys(differ)) {
		named, more := differ[why], ""
		if n := len(named) - mostNamed; n > 0 {
			named, more = named[:mostNamed], fmt.Sprintf(" and %d more", n)
		}
		r.Problems = append(r.Problems, Problem{
			Broken, "Node " + strings.Join(named, ", ") + more, "OtherVersion", why, "kubectl -n limpet-system rollout status daemonset limpet-agent",
		})
	}
	beside := func(object, what, v, remedy string) {
		if v != r.Controller {
			r.Problems = append(r.Problems, Problem{
				Attention, object, "OtherVersion", fmt.Sprintf("%s (%s) differs from the controller (%s)", what, v, r.Controller), remedy,
			})
		}
	}
	for _, v := range slices.Sorted(maps.Keys(r.Replicas)) {
		beside(controller, "a replica", v, "kubectl -n limpet-system rollout status deployment limpet-controller")
	}
	beside("kubectl-limpet", "the client", r.Client, "")
}

// tag returns the version of an image: its tag, or the beginning of its digest where it has none.
func tag(image string) string {
	name, digest, _ := strings.Cut(image, "@")
	if _, version, tagged := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":"); tagged {
		return version
	}
	return cmp.Or(digest[:min(len(digest), len("sha256:")+12)], "latest")
}
