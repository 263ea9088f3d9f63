package console

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/platform/workload"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// VersionParts are the facts that Versions needs, and then those without which the tags of images count.
var VersionParts = append(slices.Clone(images), facts.Pools, facts.Leader)

var images = []facts.Part{facts.Nodes, facts.Own, facts.Controllers, facts.Agents}

// nodeVersion is what runs on a node; empty for nothing.
type nodeVersion struct {
	tag   string // of the agent's image
	told  bool   // the agent tells its version, and that of the plugin
	Node  string `json:"node"`
	Agent string `json:"agent,omitempty"`
	// Plugin is the version of limpet-ipam. An agent is Ready only while the plugin of its image is installed.
	Plugin string `json:"plugin,omitempty"`
}

// VersionReport compares the versions of the programs.
type VersionReport struct {
	tag        string // of the controller's image
	told       bool   // the leader tells its version
	Client     string `json:"client"`
	Controller string `json:"controller,omitempty"`
	// Replicas are the pods of the controller by version.
	Replicas map[string]int `json:"replicas"`
	Nodes    []nodeVersion  `json:"nodes"`
	Problems []Problem      `json:"problems"`
	Unread   []facts.Unread `json:"unread,omitempty"`
}

// Same reports whether the agent and the plugin of each node have the version of the controller.
func (r VersionReport) Same() bool { return StatusReport{Problems: r.Problems}.Well() }

// Versions compares the client with what the programs tell: the leader in its Lease, and agents in their pools. Those that
// tell nothing have the tags of their images.
func Versions(f *facts.Facts, client string) VersionReport {
	r := VersionReport{Client: client, Replicas: map[string]int{}, Nodes: []nodeVersion{}, Problems: []Problem{}, Unread: f.Unread}
	agents := map[string]nodeVersion{}
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
			agents[pod.Spec.NodeName] = versionsOn(pod, v, f.Pools)
		}
	}
	if f.Controllers != nil {
		r.tag = tag(imageOf(f.Controllers.Spec.Template))
		told := leaderVersion(f.Leader)
		r.Controller, r.told = cmp.Or(told, r.tag), told != ""
	}
	for i := range f.Nodes {
		if !read(f, facts.Own) {
			break // it is unknown what runs there
		}
		agent := agents[f.Nodes[i].Name]
		agent.Node = f.Nodes[i].Name
		r.Nodes = append(r.Nodes, agent)
	}
	slices.SortFunc(r.Nodes, func(a, b nodeVersion) int { return strings.Compare(a.Node, b.Node) })
	if read(f, images...) {
		r.compare()
	}
	return r
}

// unknownPlugin is the version of a plugin whose agent is not Ready: it may be that of an earlier agent.
const unknownPlugin = "unknown"

func versionsOn(agent *corev1.Pod, tag string, pools []limpetv1alpha1.NodeIPPool) nodeVersion {
	v := nodeVersion{Node: agent.Spec.NodeName, Agent: tag, Plugin: tag, tag: tag}
	i := slices.IndexFunc(pools, func(p limpetv1alpha1.NodeIPPool) bool { return p.Status.Node == v.Node && p.Status.AgentVersion != "" })
	if i >= 0 {
		v.Agent, v.Plugin, v.told = pools[i].Status.AgentVersion, cmp.Or(pools[i].Status.PluginVersion, pools[i].Status.AgentVersion), true
	}
	if !workload.Ready(agent) {
		v.Plugin = unknownPlugin
	}
	return v
}

// leaderVersion returns the version in the identity of the leader: pod_version_UID. Earlier leaders have none.
func leaderVersion(lease *coordinationv1.Lease) string {
	if lease == nil || lease.Spec.HolderIdentity == nil {
		return ""
	}
	_, rest, _ := strings.Cut(*lease.Spec.HolderIdentity, "_")
	i := strings.LastIndexByte(rest, '_')
	return rest[:max(i, 0)]
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
		agent, controller := n.Agent, r.Controller
		if !n.told || !r.told {
			agent, controller = n.tag, r.tag
		}
		switch {
		case n.Agent == "":
			why = "no agent runs: the version of the plugin is not known"
		case agent != controller:
			why = fmt.Sprintf("agent and plugin (%s) differ from the controller (%s)%s", agent, controller, apart(agent, controller))
		case n.Plugin == unknownPlugin:
			why = "the agent is not Ready: an earlier plugin may be installed"
		case n.Plugin != n.Agent:
			why = fmt.Sprintf("the plugin (%s) differs from its agent (%s)", n.Plugin, n.Agent)
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
	beside := func(object, what, v, from, remedy string) {
		if v != from {
			r.Problems = append(r.Problems, Problem{
				Attention, object, "OtherVersion", fmt.Sprintf("%s (%s) differs from the controller (%s)%s", what, v, from, apart(v, from)), remedy,
			})
		}
	}
	for _, v := range slices.Sorted(maps.Keys(r.Replicas)) {
		beside(controller, "a replica", v, r.tag, "kubectl -n limpet-system rollout status deployment limpet-controller")
	}
	beside("kubectl-limpet", "the client", r.Client, r.Controller, "")
}

var release = regexp.MustCompile(`^v(\d+)\.(\d+)\.`)

// apart says that two releases are further apart than parts may be.
func apart(a, b string) string {
	x, y := release.FindStringSubmatch(a), release.FindStringSubmatch(b)
	if x == nil || y == nil {
		return ""
	}
	m, _ := strconv.Atoi(x[2]) // digits; one that is too long is the greatest number
	n, _ := strconv.Atoi(y[2])
	if x[1] == y[1] && max(m-n, n-m) <= 1 {
		return ""
	}
	return ", by more than one minor version"
}

// tag returns the version of an image: its tag, or the beginning of its digest where it has none.
func tag(image string) string {
	name, digest, _ := strings.Cut(image, "@")
	if _, version, tagged := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ":"); tagged {
		return version
	}
	return cmp.Or(digest[:min(len(digest), len("sha256:")+12)], "latest")
}
