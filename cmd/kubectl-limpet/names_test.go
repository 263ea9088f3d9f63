package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestANamespaceIsGivenInThreeWays asks each command that takes a pod in each way.
func TestANamespaceIsGivenInThreeWays(t *testing.T) {
	ns, other := env.Namespace(t), env.Namespace(t)
	env.Create(t, testenv.APod("only-0").In(ns).At("10.0.0.2").Ready().Pod, testenv.APod("two-0").In(ns).Pod, testenv.APod("two-0").In(other).Pod)
	for _, words := range []string{"pod", "explain", "explain eviction", "explain placement", "explain pending", "explain address"} {
		want, err := command(t, env.Config, append(strings.Fields(words), "only-0", "-n", ns)...)
		if err != nil || !strings.Contains(want, ns+"/only-0") {
			t.Errorf("%s: %v\n%s", words, err, want)
		}
		for _, way := range [][]string{{ns + "/only-0"}, {ns + "/only-0", "-n", ns}, {"only-0", "-A"}, {ns + "/only-0", "-A"}} {
			if got, err := command(t, env.Config, append(strings.Fields(words), way...)...); err != nil || got != want {
				t.Errorf("%s %v: %v\n%s", words, way, err, cmp.Diff(want, got))
			}
		}
		for args, want := range map[string]string{
			"two-0 -A": "/two-0", "none-0 -A": "check the name", ns + "/only-0 -n " + other: "--namespace", "a/b/c": "NAMESPACE/NAME", "/only-0": "NAMESPACE/NAME",
		} {
			if _, err := command(t, env.Config, append(strings.Fields(words), strings.Fields(args)...)...); err == nil || errors.Is(err, errNo) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %s: %v, want an error with %q", words, args, err, want)
			}
		}
	}
}

func TestReleaseTakesNamespacesOfNames(t *testing.T) {
	ns := env.Namespace(t)
	reserved(t, ns, "web-0", "10.0.0.1", limpetv1alpha1.IPReserved)
	reserved(t, ns, "web-1", "10.0.0.2", limpetv1alpha1.IPReserved)
	if text, err := command(t, env.Config, "release", ns+"/web-0", ns+"/10.0.0.2", "--dry-run=client"); err != nil || !strings.Contains(text, "web-1") {
		t.Errorf("%v\n%s", err, text)
	}
	for _, args := range [][]string{{"web-1", ns + "/web-0"}, {ns + "/web-0", "web-1"}, {ns + "/web-0", "other/web-1"}, {"web-0", "-A"}} {
		if _, err := command(t, env.Config, append([]string{"release", "--yes", "--wait=false"}, args...)...); err == nil || !strings.Contains(err.Error(), "--namespace") {
			t.Errorf("%v: %v, want an error that names the flag", args, err)
		}
	}
	if got := marks(t, ns); len(got) != 0 {
		t.Errorf("released %v", got)
	}
}

func TestExplainAnswersEverything(t *testing.T) {
	ns := env.Namespace(t)
	env.Create(t, testenv.APod("web-0").In(ns).At("10.0.0.2").Ready().Pod)
	r, err := as[console.Explained](t, env.Config, "explain", "web-0", "-n", ns)
	if err != nil || r.Eviction == nil || !r.Eviction.Allowed || len(r.Answers) != 3 {
		t.Errorf("a pod: %v, %+v", err, r)
	}
	reserved(t, ns, "away-0", "10.0.0.1", limpetv1alpha1.IPReserved)
	if r, err = as[console.Explained](t, env.Config, "explain", "away-0", "-n", ns); err != nil || r.Eviction != nil || len(r.Answers) != 1 {
		t.Errorf("a pod that is away: %v, %+v", err, r)
	}
	r, err = as[console.Explained](t, holder(t, ns, "reads", "view"), "explain", "web-0", "-n", ns)
	if err == nil || errors.Is(err, errNo) || !strings.Contains(fmt.Sprint(r.Unread), "evictions") || len(r.Answers) != 3 {
		t.Errorf("without the right to evict: %v, %+v", err, r)
	}
}

// TestExplainAnswersWhatItCanWhileAWebhookFails is about a cluster without a controller that has closed budgets.
func TestExplainAnswersWhatItCanWhileAWebhookFails(t *testing.T) {
	ns := env.Namespace(t)
	env.Create(t, testenv.APod("web-0").In(ns).At("10.0.0.2").Ready().Pod, &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "fails-in-" + ns},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "fails.example.com", ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/")}, AdmissionReviewVersions: []string{"v1"},
			SideEffects: new(admissionv1.SideEffectClassNone), FailurePolicy: new(admissionv1.Fail),
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create}, Rule: admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/eviction"}},
			}},
		}},
	})
	testenv.Eventually(t, func() error {
		r, err := as[console.Explained](t, env.Config, "explain", "web-0", "-n", ns)
		if err == nil || errors.Is(err, errNo) || !strings.Contains(fmt.Sprint(r.Unread), "fails.example.com") || len(r.Answers) != 3 {
			return fmt.Errorf("%w, %+v; want the other answers, and what failed", err, r)
		}
		return nil
	})
}

func TestPodsAndNodesAreCompleted(t *testing.T) {
	ns, node := env.Namespace(t), env.Node(t)
	env.Create(t, testenv.APod("web-0").In(ns).Pod)
	for args, want := range map[string]string{
		"pod": "web-0\n:", "pod web-0": ":", "explain pending": "web-0\n:", "plan drain": node.Name + "\n", "plan drain " + node.Name: ":",
	} {
		var out bytes.Buffer
		root := newRoot(surroundings{out: &out, err: io.Discard, now: time.Now})
		root.SetArgs(append(append([]string{"__complete", "--kubeconfig", kubeconfig(t, env.Config), "-n", ns}, strings.Fields(args)...), ""))
		err := root.ExecuteContext(t.Context())
		if got := out.String(); err != nil || !strings.Contains(got, want) || args == "plan drain "+node.Name && strings.Contains(got, node.Name+"\n") {
			t.Errorf("%s: %v, %q; want %q", args, err, got, want)
		}
	}
}
