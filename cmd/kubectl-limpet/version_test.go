package main

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// TestVersionTellsAnEarlierAgent compares a node whose agent was not upgraded.
func TestVersionTellsAnEarlierAgent(t *testing.T) {
	testenv.Beside(t, &env)
	node := env.Node(t)
	labels := map[string]string{facts.LabelName: facts.Controller}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: facts.Namespace, Name: facts.Controller},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "limpet-controller:v0.2.0"}}},
		}},
	}
	agent := testenv.APod("limpet-agent-x").In(facts.Namespace).On(node.Name).Ready()
	agent.Labels = map[string]string{facts.LabelName: facts.Agent}
	agent.Spec.Containers[0].Name, agent.Spec.Containers[0].Image = "agent", "r.example/limpet-agent:v0.1.0"
	env.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: facts.Namespace}})
	env.Create(t, deployment, agent.Pod)
	r, err := as[console.VersionReport](t, env.Config, "version")
	if !errors.Is(err, errNo) || r.Controller != "v0.2.0" || len(r.Nodes) != 1 || r.Nodes[0].Plugin != "v0.1.0" {
		t.Errorf("%v, %+v", err, r)
	}
	text, _ := command(t, env.Config, "version", "-o", "wide")
	for _, want := range []string{"differ from the controller (v0.2.0)", "limpet-ipam         v0.1.0 (1)", node.Name + "   v0.1.0"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text does not say %q:\n%s", want, text)
		}
	}
}

func TestLostNamesCauseAndRemedy(t *testing.T) {
	ns := env.Namespace(t)
	state := testenv.APersistentPodState("web").In(ns).Requires("rack").Recorded("web-0", "n1", nil)
	record := state.Status.PodStates["web-0"]
	record.Outcome, record.Cause, record.IPs = appsv1beta1.Lost, pin.CauseReclaimed, "10.0.0.2"
	state.Status.PodStates["web-0"] = record
	env.Create(t, state.PersistentPodState)
	text, err := command(t, env.Config, "lost", "-n", ns)
	if err != nil || !strings.Contains(text, ns+"/web-0") || !strings.Contains(text, "Reclaimed: give the node more addresses") {
		t.Errorf("%v\n%s", err, text)
	}
}
