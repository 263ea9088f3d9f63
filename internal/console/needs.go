package console

import (
	"fmt"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/platform/workload"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// read reports whether kinds could be read. What could not be read is no problem of the cluster.
func read(f *facts.Facts, parts ...facts.Part) bool { return f.Unknown(parts...) == "" }

// served takes the kinds that the cluster does not have out of what could not be read: that is known, and a problem.
func served(f *facts.Facts) (found []Problem, unread []facts.Unread) {
	for _, u := range f.Unread {
		if !u.NotServed {
			unread = append(unread, u)
			continue
		}
		remedy := "kubectl apply --server-side -k deploy/crds"
		if u.Kind == facts.NodeNetworks {
			remedy = "kubectl apply --server-side -f deploy/node-network/limpet.dev_nodenetworks.yaml"
		}
		found = append(found, Problem{Broken, "CustomResourceDefinition " + u.Kind, "NotServed", "the cluster does not serve this kind", remedy})
	}
	return found, unread
}

// installed says which parts of the installation are missing or do not work.
func installed(f *facts.Facts, r StatusReport) []Problem {
	var found []Problem
	broken := func(object, reason, message, remedy string) {
		found = append(found, Problem{Broken, object, reason, message, remedy})
	}
	controller := "Deployment " + facts.Namespace + "/" + facts.Controller
	switch {
	case f.Controllers == nil && read(f, facts.Controllers):
		broken(controller, "NotInstalled", "limpet-controller is not installed", "kubectl apply -k deploy/default")
	case r.Controller.Unknown:
	case f.Controllers != nil && r.Controller.Ready == 0:
		broken(controller, "NoReplica", "no replica is Ready"+r.Controller.first()+": pods that ask for retention wait",
			"kubectl -n limpet-system describe pods -l app.kubernetes.io/name=limpet-controller")
	case r.Controller.Ready < r.Controller.Desired:
		found = append(found, Problem{
			Attention, controller, "ReplicaMissing",
			fmt.Sprintf("%d of %d replicas are Ready%s", r.Controller.Ready, r.Controller.Desired, r.Controller.first()), "",
		})
	case r.Controller.Desired > 1 && len(slices.Compact(slices.Clone(r.Controller.Nodes))) == 1 && len(f.Nodes) > 1:
		found = append(found, Problem{
			Attention, controller, "OneNode", "all replicas run on node " + r.Controller.Nodes[0],
			"kubectl -n limpet-system rollout restart deployment limpet-controller",
		})
	}
	agent := "DaemonSet " + facts.Namespace + "/" + facts.Agent
	switch {
	case f.Agents == nil && read(f, facts.Agents):
		broken(agent, "NotInstalled", "limpet-agent is not installed", "kubectl apply -k deploy/default")
	case !r.Agent.Unknown && r.Agent.Ready < r.Agent.Desired:
		broken(agent, "AgentsMissing", fmt.Sprintf("%d of %d agents are Ready%s: reservations of the other nodes do not end",
			r.Agent.Ready, r.Agent.Desired, r.Agent.first()), "kubectl -n limpet-system get pods -l app.kubernetes.io/name=limpet-agent -o wide")
	}
	return append(found, webhooks(f)...)
}

// webhooks says which webhook configurations are missing, or have no certificate yet.
func webhooks(f *facts.Facts) (found []Problem) {
	check := func(kind string, part facts.Part, installed, certified bool) {
		object := kind + " " + facts.Controller
		switch {
		case !installed && read(f, part):
			found = append(found, Problem{Broken, object, "NotInstalled", "the webhooks are not installed", "kubectl apply -k deploy/default"})
		case installed && !certified:
			found = append(found, Problem{Broken, object, "NoCertificate", "a webhook has no certificate of its server", "wait for limpet-controller, which writes it"})
		}
	}
	check("MutatingWebhookConfiguration", facts.Mutating, f.Mutating != nil, f.Mutating != nil && !slices.ContainsFunc(f.Mutating.Webhooks,
		func(w admissionv1.MutatingWebhook) bool { return len(w.ClientConfig.CABundle) == 0 }))
	check("ValidatingWebhookConfiguration", facts.Validating, f.Validating != nil, f.Validating != nil && !slices.ContainsFunc(f.Validating.Webhooks,
		func(w admissionv1.ValidatingWebhook) bool { return len(w.ClientConfig.CABundle) == 0 }))
	return found
}

// nodes says which nodes are not Ready, and on which no network uses limpet-ipam although an agent runs.
func nodes(f *facts.Facts, lines []NodeLine) []Problem {
	var found []Problem
	var foreign []string
	for i, line := range lines {
		if !line.Ready && (i == 0 || lines[i-1].Node != line.Node) { // a node has a line for each network
			found = append(found, Problem{Attention, "Node " + line.Node, "NodeNotReady", "the node is not Ready", "kubectl describe node " + line.Node})
		}
		if line.Network == "" && line.Agent == "Ready" && read(f, facts.Pools) {
			foreign = append(foreign, line.Node)
		}
	}
	if n := len(foreign); n > 0 {
		found = append(found, Problem{
			Attention, "Node " + strings.Join(foreign[:min(n, mostNamed)], ", "), "NoPool",
			fmt.Sprintf("no pod of %d of %d nodes has an address of limpet-ipam: they had no new pod yet, or their network uses another IPAM plugin", n, len(f.Nodes)),
			"start a pod there; if kubectl get events --field-selector reason=ForeignNetwork names them, make the network use limpet-ipam (docs/operate/install.md)",
		})
	}
	return found
}

// mostNamed is how many nodes with one problem are named.
const mostNamed = 5

// judged adds a problem for each condition of an object that has its bad status.
func judged(found []Problem, object string, conditions []metav1.Condition, bad map[string]metav1.ConditionStatus) []Problem {
	for _, c := range conditions {
		if status, known := bad[c.Type]; known && c.Status == status {
			found = append(found, Problem{Attention, object, c.Reason, c.Message, ""})
		}
	}
	return found
}

// pools says which pools are used up, and which nodes have another network or refused their settings.
func pools(f *facts.Facts) []Problem {
	var found []Problem
	for _, p := range f.Pools {
		if f.Node(p.Status.Node) == nil && read(f, facts.Nodes) {
			found = append(found, Problem{Attention, "NodeIPPool " + p.Name, "NodeGone", "its node does not exist", "the controller removes it within some minutes"})
			continue
		}
		found = judged(found, "Node "+p.Status.Node+", network "+p.Status.Network, p.Status.Conditions, map[string]metav1.ConditionStatus{
			limpetv1alpha1.ConditionExhausted: metav1.ConditionTrue, limpetv1alpha1.ConditionShareReached: metav1.ConditionTrue,
			limpetv1alpha1.ConditionConfigured: metav1.ConditionFalse,
		})
	}
	return found
}

// lately is how long the loss of an address is told.
const lately = 24 * time.Hour

// records says which PersistentPodStates do not record, whose pods wait for their node, and whose lost an address.
func records(f *facts.Facts) []Problem {
	var found []Problem
	for _, s := range f.States {
		object := "PersistentPodState " + s.Namespace + "/" + s.Name
		conditions := slices.DeleteFunc(slices.Clone(s.Status.Conditions), func(c metav1.Condition) bool { // it goes with its last record
			return c.Reason == appsv1beta1.ReasonTargetMissing && s.Labels[pin.LabelGenerated] == "true"
		})
		found = judged(found, object, conditions, map[string]metav1.ConditionStatus{
			appsv1beta1.ConditionRecording: metav1.ConditionFalse, appsv1beta1.ConditionWaiting: metav1.ConditionTrue,
			appsv1beta1.ConditionKindsInvalid: metav1.ConditionTrue, appsv1beta1.ConditionTopologyUnknown: metav1.ConditionTrue,
		})
		for _, r := range lastRebuilds(&s) {
			if r.Outcome == appsv1beta1.Lost && f.Now.Sub(r.Time.Time) < lately {
				found = append(found, Problem{
					Attention, object, string(appsv1beta1.Lost), "pod " + r.Pod + " lost its address: " + strings.TrimSuffix(r.Cause+": "+r.Message, ": "),
					"kubectl limpet explain address " + r.Pod + " -n " + s.Namespace,
				})
			}
		}
	}
	return found
}

// unreadFor is how long the controller may take to read a new budget.
const unreadFor = 30 * time.Second

// mistakes are reasons in a budget itself: all parts of Limpet do their work, for which status --wait waits.
var mistakes = []string{budget.ReasonEnforcedNoPods, budget.ReasonEnforcedOldRules, budget.ReasonEnforcedBarePods}

// budgets says which budgets are not enforced.
func budgets(f *facts.Facts) []Problem {
	all := slices.Clone(f.Budgets)
	for i := range f.Divided {
		all = append(all, *budget.Undivided(&f.Divided[i]))
	}
	var found []Problem
	for _, b := range all {
		c := meta.FindStatusCondition(b.Status.Conditions, policyv1beta1.ConditionEnforced)
		if c != nil && c.Status == metav1.ConditionTrue {
			continue
		}
		kind, name, _ := strings.Cut(budget.Title(b.Name), " ")
		p := Problem{Broken, kind + " " + b.Namespace + "/" + name, "NotReconciled", "limpet-controller has not read it yet", ""}
		switch {
		case c != nil:
			p.Reason, p.Message = c.Reason, c.Message
			if slices.Contains(mistakes, c.Reason) {
				p.Severity = Attention
			}
		case f.Now.Sub(b.CreationTimestamp.Time) < unreadFor:
			p.Severity = Attention
		}
		found = append(found, p)
	}
	return found
}

// spreads says which spreads do not place pods, and which subsets take none.
func spreads(f *facts.Facts) []Problem {
	var found []Problem
	for _, s := range f.Spreads {
		object := "WorkloadSpread " + s.Namespace + "/" + s.Name
		found = judged(found, object, s.Status.Conditions, map[string]metav1.ConditionStatus{
			appsv1beta1.ConditionPlaced: metav1.ConditionFalse, appsv1beta1.ConditionRolloutBlocked: metav1.ConditionTrue,
		})
		for _, subset := range s.Status.SubsetStatuses {
			found = judged(found, object+", subset "+subset.Name, subset.Conditions,
				map[string]metav1.ConditionStatus{appsv1beta1.ConditionSchedulable: metav1.ConditionFalse})
		}
	}
	return found
}

// ignored says which annotations of workloads do nothing, as the webhook says when they are applied.
func ignored(f *facts.Facts, asked []Keeping) []Problem {
	type named struct {
		namespace string
		workload.Target
	}
	targeted := map[named]bool{}
	for i := range f.States {
		targeted[named{f.States[i].Namespace, pin.TargetOf(&f.States[i])}] = true
	}
	namespaces := map[string]map[string]string{}
	for _, k := range asked {
		namespaces[k.Namespace] = map[string]string{reservation.KeepAnnotation: k.For}
	}
	var found []Problem
	for _, w := range f.Workloads {
		target := workload.Target{Group: w.Kind.Group, Kind: w.Kind.Kind, Name: w.Name}
		in := pin.AdviceInput{
			Kind: w.Kind, Annotations: w.Annotations, Template: w.Template, MaxReservation: longest, Returns: workload.Kinds{}.Contains(target),
			Namespace: namespaces[w.Namespace],
			Targeted:  targeted[named{w.Namespace, target}] || !read(f, facts.States),
		}
		if told := pin.Advise(in); len(told) > 0 {
			found = append(found, Problem{Attention, w.Kind.Kind + " " + w.Namespace + "/" + w.Name, pin.ReasonIgnored, strings.Join(told, "; "), ""})
		}
	}
	return found
}
