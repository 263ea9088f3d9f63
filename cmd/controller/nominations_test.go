package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// TestPodsStartWhereOnlyTheSchedulerNominates has the API server refuse the nominations of all others, as a release may.
// Required pods return while their node has room, or else wait until they are released. Preferred pods start.
func TestPodsStartWhereOnlyTheSchedulerNominates(t *testing.T) {
	plays := map[string]*play{
		"required, with room":          {shape: asking(required), first: deleted("web-1"), want: kept("web-1")},
		"required, full":               {shape: asking(required), first: displaced("web-1"), want: waitsForRoom("web-1")},
		"required, full, and released": {shape: asking(releasedSoon), first: displaced("web-1"), want: moved("web-1", pin.CauseReleased)},
		"preferred, with room":         {shape: asking(func(*play) {}), first: deleted("web-1"), want: restarted("web-1")},
		"preferred, full":              {shape: asking(func(*play) {}), first: displaced("web-2"), want: moved("web-2", pin.CauseNodeRefused)},
	}
	controller, names := stagePlays(t, plays)
	for _, name := range names {
		refuseNominations(t, plays[name].set.Namespace)
		plays[name].first(t, plays[name])
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) { plays[name].want(t, plays[name]) })
	}
	const refused = "Pod is scheduled without a nomination"
	if log, err := os.ReadFile(controller.log); err != nil || strings.Count(string(log), refused) < 2 {
		t.Errorf("the log says %q less than twice (%v): was no nomination tried?", refused, err)
	}
}

// refuseNominations has the API server refuse nominations in a namespace, but those of the scheduler's group.
func refuseNominations(t *testing.T, ns string) {
	t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "nominates-" + ns}}
	rule := admissionv1.NamedRuleWithOperations{}
	rule.Operations = []admissionv1.OperationType{admissionv1.Update}
	rule.APIGroups, rule.APIVersions, rule.Resources = []string{""}, []string{"v1"}, []string{"pods/status"}
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{rule}}
	policy.Spec.Validations = []admissionv1.Validation{{Expression: "request.namespace != '" + ns + "' || 'system:masters' in request.userInfo.groups || " +
		"object.status.?nominatedNodeName == oldObject.status.?nominatedNodeName"}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: policy.Name}}
	binding.Spec.PolicyName, binding.Spec.ValidationActions = policy.Name, []admissionv1.ValidationAction{admissionv1.Deny}
	limpet, pod := env.As(t, env.AsController(t)), testenv.APod("probe").In(ns).Gated(pin.Gate, "example.com/probe").With(pin.AnnotationNode, "n1").Pod
	env.Create(t, policy, binding, pod)
	testenv.Eventually(t, func() error {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"nominatedNodeName":"n1"}}`))
		if err := limpet.Status().Patch(t.Context(), pod.DeepCopy(), patch, client.DryRunAll); err == nil || !strings.Contains(err.Error(), policy.Name) {
			return fmt.Errorf("nominate: %w, want policy %s to refuse it", err, policy.Name)
		}
		return nil
	})
}

// asking shapes a set whose pods ask for a CPU.
func asking(shape func(*play)) func(*play) {
	return func(p *play) {
		p.set.Spec.Template.Spec = testenv.Pod{Pod: &corev1.Pod{Spec: p.set.Spec.Template.Spec}}.Asking(1).Spec
		shape(p)
	}
}

// displaced deletes a pod after another one took all room of its node.
func displaced(pod string) func(*testing.T, *play) {
	return func(t *testing.T, p *play) {
		t.Helper()
		env.Create(t, testenv.APod("rival").In(p.set.Namespace).On(p.node(pod).Name).Asking(8).Pod)
		p.delete(t, pod)
	}
}

// waitsForRoom wants a pod to wait while its node is full, and back as soon as it is not.
func waitsForRoom(pod string) func(*testing.T, *play) {
	return func(t *testing.T, p *play) {
		t.Helper()
		env.Condition(t, p.set, appsv1beta1.ConditionWaiting, metav1.ConditionTrue, pin.CauseNodeRefused, p.node(pod).Name)
		env.Remove(t, testenv.APod("rival").In(p.set.Namespace).Pod)
		kept(pod)(t, p)
	}
}

// restarted wants the next pod to run, on any node.
func restarted(pod string) func(*testing.T, *play) {
	return func(t *testing.T, p *play) {
		t.Helper()
		p.ready(t, pod, p.before[pod].UID)
	}
}
