package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/test/programs"
)

// The NetworkPolicy selects the controller and names its ports. A user who forgets to name
// the network of the API servers is told so.
func TestTheNetworkPolicyFitsTheDeployment(t *testing.T) {
	install(t)
	object := env.Manifest(t, "deploy/network-policy/network-policy.yaml")[0]
	if err := env.Client.Create(t.Context(), object.DeepCopy()); !apierrors.IsInvalid(err) {
		t.Errorf("create the policy as it is: %v, want it refused", err)
	}
	var policy networkingv1.NetworkPolicy
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &policy); err != nil {
		t.Fatal(err)
	}
	policy.Spec.Ingress[0].From = []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/28"}}}
	env.Create(t, &policy)

	template := deployment(t).Spec.Template
	for key, value := range policy.Spec.PodSelector.MatchLabels {
		if template.Labels[key] != value {
			t.Errorf("the policy selects %s=%s, and the pods have %q", key, value, template.Labels[key])
		}
	}
	for i, name := range []string{"webhook", "metrics"} {
		port := policy.Spec.Ingress[i].Ports[0].Port.StrVal
		if port != name || !slices.ContainsFunc(template.Spec.Containers[0].Ports, func(p corev1.ContainerPort) bool { return p.Name == name }) {
			t.Errorf("rule %d allows port %q, want %q, which the pods must have", i, port, name)
		}
	}
}

// overlay is what the component's own comment tells users to write.
const overlay = `resources: [%[1]s/default]
components: [%[1]s/network-policy]
patches:
  - target: {kind: NetworkPolicy, name: limpet-controller}
    patch: |
      - {op: replace, path: /spec/ingress/0/from, value: [{ipBlock: {cidr: 10.0.0.0/28}}]}
`

func TestTheNetworkPolicyIsAComponent(t *testing.T) {
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	deploy, err := filepath.Rel(dir, filepath.Join(root, "deploy"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), fmt.Appendf(nil, overlay, deploy), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl, err := programs.Find(os.Getenv(testenv.AssetsVar), "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	text, err := exec.CommandContext(t.Context(), kubectl, "kustomize", dir).CombinedOutput()
	if err != nil || !strings.Contains(string(text), "cidr: 10.0.0.0/28") || !strings.Contains(string(text), "kind: DaemonSet") {
		t.Errorf("render: %v\n%.3000s", err, text)
	}
}
