package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/test/programs"
)

// component is what the comment of deploy/mutating-policy tells users to write.
const component = `resources: [%[1]s/default]
components: [%[1]s/mutating-policy]
`

// renderMutating returns the webhooks with the component, and its policy.
func renderMutating(t *testing.T) (*admissionv1.MutatingWebhookConfiguration, *admissionv1.MutatingAdmissionPolicy, *admissionv1.MutatingAdmissionPolicyBinding) {
	t.Helper()
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	deploy, err := filepath.Rel(dir, filepath.Join(root, "deploy"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), fmt.Appendf(nil, component, deploy), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl, err := programs.Find(os.Getenv(testenv.AssetsVar), "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	text, err := exec.CommandContext(t.Context(), kubectl, "kustomize", dir).CombinedOutput()
	if err != nil {
		t.Fatalf("render: %v\n%s", err, text)
	}
	webhooks, policy, binding := &admissionv1.MutatingWebhookConfiguration{}, &admissionv1.MutatingAdmissionPolicy{}, &admissionv1.MutatingAdmissionPolicyBinding{}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		for kind, into := range map[string]any{
			"MutatingWebhookConfiguration": webhooks, "MutatingAdmissionPolicy": policy, "MutatingAdmissionPolicyBinding": binding,
		} {
			if strings.Contains(document, "\nkind: "+kind+"\n") {
				if err := yaml.UnmarshalStrict([]byte(document), into); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return webhooks, policy, binding
}

// nobodyAnswers points webhooks to a port on which nothing listens.
func nobodyAnswers(t *testing.T, webhooks *admissionv1.MutatingWebhookConfiguration) {
	t.Helper()
	port := testenv.FreePort(t)
	for i := range webhooks.Webhooks {
		c := &webhooks.Webhooks[i].ClientConfig
		*c = admissionv1.WebhookClientConfig{URL: new("https://localhost:" + port + *c.Service.Path)}
	}
	env.Create(t, webhooks)
}

// The pods of the component's webhook are those of the strict one.
func TestTheOpenWebhookMatchesThePodsOfTheStrictOne(t *testing.T) {
	webhooks, _, _ := renderMutating(t)
	strict, open := webhooks.Webhooks[0], webhooks.Webhooks[len(webhooks.Webhooks)-1]
	if strict.Name != "retained.pods.limpet.dev" || open.Name != "open."+strict.Name || *open.FailurePolicy != admissionv1.Ignore {
		t.Fatalf("first %s, last %s with %s", strict.Name, open.Name, *open.FailurePolicy)
	}
	if !reflect.DeepEqual(open.MatchConditions, strict.MatchConditions) || !reflect.DeepEqual(open.Rules, strict.Rules) {
		t.Errorf("the webhooks match other pods:\n%+v\n%+v", open, strict)
	}
}

const (
	fleet = 60 // pods that are rebuilt while no controller answers
	third = fleet / 3
)

// All controllers are dead, and sixty pods are rebuilt that ran on three nodes.
func TestPodsComeHomeWithoutAnyController(t *testing.T) {
	env.Since(t, 36, "MutatingAdmissionPolicies of v1")
	install(t)
	for _, name := range []string{"m1", "m2", "m3"} {
		env.Create(t, testenv.ANode(name).Labelled(stage, "yes").Tainted(stage, corev1.TaintEffectNoSchedule).WithRoom(110, 64).Node)
	}
	env.StartScheduler(t)
	webhooks, policy, binding := renderMutating(t)
	nobodyAnswers(t, webhooks)

	strict, _ := rebuildFleet(t, "", false, nil)
	if strict != 0 {
		t.Errorf("%d pods were created in a namespace that waits for the controller", strict)
	}
	created, before := rebuildFleet(t, "open", false, nil)
	env.Create(t, policy, binding)
	_, home := rebuildFleet(t, "open", true, nil)
	_, against := rebuildFleet(t, "open", true, spread(corev1.ScheduleAnyway))
	t.Logf("of %d pods: by default %d are created. Labelled open: %d are created and %d are home without the policy, %d with it, %d with it against a ScheduleAnyway constraint",
		fleet, strict, created, before, home, against)
	if created != fleet || home < fleet*9/10 {
		t.Errorf("%d pods created and %d home with the policy, want all created, and nine of ten home", created, home)
	}
}

// rebuildFleet creates the next pods of a workload that ran on three nodes: the first third on the
// first one, and so on. It returns how many were created, and how many are on their nodes.
func rebuildFleet(t *testing.T, label string, preferred bool, shape func(*testing.T, testenv.Pod)) (created, home int) {
	t.Helper()
	ns := openNamespace(t, label)
	set := testenv.AStatefulSet("web", fleet).In(ns)
	state := testenv.APersistentPodState("web").In(ns).Prefers(100, hostname)
	for i := range fleet {
		state = state.Recorded(fmt.Sprintf("web-%d", i), homeOf(i), map[string]string{hostname: homeOf(i)})
	}
	env.Create(t, set.StatefulSet, state.PersistentPodState)
	if preferred { // the API server watches policies and their parameters
		testenv.Eventually(t, func() error {
			if preferences(t, onStage(set, fmt.Sprintf("web-%d", fleet-1))) != 1 {
				return errors.New("the policy does not act yet")
			}
			return nil
		})
	}
	var pods []*corev1.Pod
	for i := range fleet {
		pod := onStage(set, fmt.Sprintf("web-%d", i))
		if shape != nil {
			shape(t, pod)
		}
		err := env.Client.Create(t.Context(), pod.Pod)
		if apierrors.IsInternalError(err) { // no webhook answers
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		pods = append(pods, pod.Pod)
	}
	for i, pod := range pods {
		testenv.Eventually(t, func() error {
			err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod)
			if err == nil && pod.Spec.NodeName == "" {
				err = errors.New("the pod is not scheduled")
			}
			return err
		})
		if pod.Spec.NodeName == homeOf(i) {
			home++
		}
	}
	for _, pod := range pods {
		env.Remove(t, pod)
	}
	return len(pods), home
}

func homeOf(i int) string { return fmt.Sprintf("m%d", i/third+1) }

func openNamespace(t *testing.T, label string) string {
	t.Helper()
	if label == "" {
		return env.Namespace(t)
	}
	return env.Namespace(t, "limpet.dev/pin", label)
}

// preferences returns how often a new pod of a workload prefers a node by its name.
func preferences(t *testing.T, pod testenv.Pod) int {
	t.Helper()
	if err := env.Client.Create(t.Context(), pod.Pod, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	n := 0
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		for _, term := range a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
			n += len(term.Preference.MatchFields)
		}
	}
	return n
}
