package console

import (
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/console/facts"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// read tells whether kinds could be read. What could not be read is no problem of the cluster.
func read(f *facts.Facts, parts ...facts.Part) bool { return f.Unknown(parts...) == "" }

// served takes the kinds that the cluster does not have out of what could not be read: that is known, and a problem.
func served(f *facts.Facts) (found []Problem, unread []facts.Unread) {
	for _, u := range f.Unread {
		if !u.NotServed {
			unread = append(unread, u)
			continue
		}
		found = append(found, Problem{
			Broken, "CustomResourceDefinition " + u.Kind, "NotServed", "the cluster does not serve this kind", "kubectl apply --server-side -k deploy/crds",
		})
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
func webhooks(f *facts.Facts) []Problem {
	var found []Problem
	check := func(kind string, part facts.Part, installed bool, configs []admissionv1.WebhookClientConfig) {
		object := kind + " " + facts.Controller
		switch {
		case !installed && read(f, part):
			found = append(found, Problem{Broken, object, "NotInstalled", "the webhooks are not installed", "kubectl apply -k deploy/default"})
		case slices.ContainsFunc(configs, func(c admissionv1.WebhookClientConfig) bool { return len(c.CABundle) == 0 }):
			found = append(found, Problem{Broken, object, "NoCertificate", "a webhook has no certificate of its server", "wait for limpet-controller, which writes it"})
		}
	}
	var mutating, validating []admissionv1.WebhookClientConfig
	if f.Mutating != nil {
		for _, w := range f.Mutating.Webhooks {
			mutating = append(mutating, w.ClientConfig)
		}
	}
	if f.Validating != nil {
		for _, w := range f.Validating.Webhooks {
			validating = append(validating, w.ClientConfig)
		}
	}
	check("MutatingWebhookConfiguration", facts.Mutating, f.Mutating != nil, mutating)
	check("ValidatingWebhookConfiguration", facts.Validating, f.Validating != nil, validating)
	return found
}

// pools says which pools are used up.
func pools(f *facts.Facts) []Problem {
	var found []Problem
	for _, p := range f.Pools {
		object := "Node " + p.Status.Node
		if f.Node(p.Status.Node) == nil && read(f, facts.Nodes) {
			found = append(found, Problem{Attention, "NodeIPPool " + p.Name, "NodeGone", "its node does not exist", "the controller removes it within some minutes"})
			continue
		}
		for _, kind := range []string{limpetv1alpha1.ConditionExhausted, limpetv1alpha1.ConditionShareReached} {
			if c := meta.FindStatusCondition(p.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
				found = append(found, Problem{Attention, object, c.Reason, "network " + p.Status.Network + ": " + c.Message, ""})
			}
		}
	}
	return found
}

// records says which PersistentPodStates do not record, and whose pods wait for their node.
func records(f *facts.Facts) []Problem {
	var found []Problem
	for _, s := range f.States {
		object := "PersistentPodState " + s.Namespace + "/" + s.Name
		if c := meta.FindStatusCondition(s.Status.Conditions, appsv1beta1.ConditionRecording); c != nil && c.Status == metav1.ConditionFalse {
			found = append(found, Problem{Attention, object, c.Reason, c.Message, ""})
		}
		for _, kind := range []string{appsv1beta1.ConditionWaiting, appsv1beta1.ConditionKindsInvalid} {
			if c := meta.FindStatusCondition(s.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
				found = append(found, Problem{Attention, object, c.Reason, c.Message, ""})
			}
		}
	}
	return found
}

// budgets says which budgets are not enforced.
func budgets(f *facts.Facts) []Problem {
	var found []Problem
	for _, b := range f.Budgets {
		c := meta.FindStatusCondition(b.Status.Conditions, policyv1beta1.ConditionEnforced)
		if c == nil || c.Status != metav1.ConditionTrue {
			p := Problem{Broken, "PodUnavailableBudget " + b.Namespace + "/" + b.Name, "NotReconciled", "limpet-controller has not read it yet", ""}
			if c != nil {
				p.Reason, p.Message = c.Reason, c.Message
			}
			found = append(found, p)
		}
	}
	return found
}

// spreads says which spreads do not place pods, and which subsets take none.
func spreads(f *facts.Facts) []Problem {
	var found []Problem
	for _, s := range f.Spreads {
		for _, kind := range []string{appsv1beta1.ConditionPlaced, appsv1beta1.ConditionSchedulable} {
			if c := meta.FindStatusCondition(s.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionFalse {
				found = append(found, Problem{Attention, "WorkloadSpread " + s.Namespace + "/" + s.Name, c.Reason, c.Message, ""})
			}
		}
	}
	return found
}
