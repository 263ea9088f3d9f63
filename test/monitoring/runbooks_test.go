package monitoring_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/test/monitoring"
	"github.com/limpet-io/limpet/test/programs"
)

// placeholders of the pages, and what they stand for here.
var placeholders = strings.NewReplacer(
	"POD", "db-0", "NAMESPACE", "shop", "NODE", "n1", "NAME", "db", "NETNS", "cni-1", "ADDRESS", "10.9.0.2", `"epoch":E`, `"epoch":2`,
	"statefulset web", "-n shop statefulset db", "persistentpodstate web", "-n shop persistentpodstate db", "web-0", "db-0",
)

var (
	// notRun are lines that need a container runtime, what installs webhooks, which have no server here, and names of commands
	// in sentences.
	notRun = regexp.MustCompile(`(?m)^(crictl .*|kubectl apply -k deploy/(own-network|cert-manager|given-certificate|default|flannel)|kubectl (apply|drain)|kubectl limpet (release|explain address)|limpet-ipam release)$`)
	// missing are errors about what is not here: a reservation, a kubelet, a loan.
	missing = regexp.MustCompile(`error: nothing is reserved for|no preferred addresses found|borrowedaddresses.limpet.dev "db" not found`)
	// deletes are commands after which the names are bound again.
	deletes = regexp.MustCompile(`delete|drain|taint`)
	filter  = regexp.MustCompile(`\| (grep (?:'[^']*'|\S+))$`)
)

// bound is what the names stand for.
const bound = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: shop}}
- {apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, metadata: {name: limpet-controller}, webhooks: [&nothing {name: a.limpet.dev, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {url: "https://127.0.0.1:1/"}}]}
- {apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, metadata: {name: limpet-controller}, webhooks: [*nothing]}
- {apiVersion: v1, kind: Node, metadata: {name: n1, labels: {kubernetes.io/hostname: n1}}}
- {apiVersion: limpet.dev/v1alpha1, kind: NodeNetwork, metadata: {name: limpet}, spec: {mtu: 1450}}
- {apiVersion: apps.kruise.io/v1beta1, kind: PersistentPodState, metadata: {name: db, namespace: shop}, spec: {targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}}}
- {apiVersion: apps.kruise.io/v1beta1, kind: WorkloadSpread, metadata: {name: db, namespace: shop}, spec: {targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}, subsets: [{name: a}]}}
- {apiVersion: policy.kruise.io/v1beta1, kind: PodUnavailableBudget, metadata: {name: db, namespace: shop}, spec: {maxUnavailable: 1, selector: {matchLabels: {app: db}}}}
- apiVersion: apps/v1
  kind: StatefulSet
  metadata: {name: db, namespace: shop}
  spec:
    selector: {matchLabels: {app: db}}
    template: {metadata: {labels: {app: db}}, spec: {containers: [{name: main, image: example.com/main}]}}
- apiVersion: apps/v1
  kind: Deployment
  metadata: {name: limpet-controller, namespace: limpet-system}
  spec:
    selector: {matchLabels: {app: c}}
    template: {metadata: {labels: {app: c}}, spec: {containers: [{name: controller, image: example.com/controller}]}}
- apiVersion: v1
  kind: Pod
  metadata: {name: db-0, namespace: shop, labels: {app: db}, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: u1, controller: true}]}
  spec: {nodeName: n1, terminationGracePeriodSeconds: 0, containers: [{name: main, image: example.com/main}]}
- apiVersion: v1
  kind: Pod
  metadata:
    {name: limpet-agent-1, namespace: limpet-system, labels: {app.kubernetes.io/name: limpet-agent}, ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: a, uid: u2, controller: true}]}
  spec: {nodeName: n1, terminationGracePeriodSeconds: 0, containers: [{name: agent, image: example.com/agent}]}
`

// TestEachCommandOfTheRunbooksRuns runs what the runbooks say, and the sections of other pages to which they lead, with an API
// server, an agent and the state of a pod. A flag, verb or kind that does not exist fails, as does a name without its namespace.
func TestEachCommandOfTheRunbooksRuns(t *testing.T) {
	testenv.Beside(t, &env)
	dir := t.TempDir()
	build(t, dir)
	workload(t)
	env.ServeKind(t, schema.GroupVersionKind{Group: "cert-manager.io", Version: "v1", Kind: "Certificate"})
	for _, o := range env.Manifest(t, "deploy/break-glass/rbac.yaml") {
		env.Create(t, o)
	}
	console := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", dir+"/", "./cmd/kubectl-limpet")
	console.Dir = root
	if out, err := console.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	agent(t, dir)
	kubectl, err := programs.Find(os.Getenv(programs.Var), "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	deploy, err := filepath.Abs(filepath.Join(root, "deploy"))
	if err == nil {
		err = os.Symlink(deploy, filepath.Join(dir, "deploy"))
	}
	if err != nil {
		t.Fatal(err)
	}
	environ := append(os.Environ(), "USER=alice", "KUBECONFIG="+env.Kubeconfig(t, ""), "PATH="+dir+":"+filepath.Dir(kubectl)+":"+os.Getenv("PATH"))
	here := strings.NewReplacer("limpet-ipam ", "limpet-ipam --data-dir="+filepath.Join(dir, "state")+" ", "/var/log/limpet", dir, "/opt/cni/bin/", "")
	shell := func(t *testing.T, script, stdin string) (string, int) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
		cmd.Env, cmd.Dir, cmd.Stdin, cmd.WaitDelay = environ, dir, strings.NewReader(stdin), time.Second
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	scripts, err := monitoring.Runbooks(root)
	if err != nil || len(scripts) < 40 {
		t.Fatalf("found %d commands: %v", len(scripts), err)
	}
	t.Cleanup(func() {
		_ = exec.CommandContext(context.WithoutCancel(t.Context()), "ip", "netns", "delete", "cni-1").Run() // a runbook may have deleted it
	})
	there := false
	for _, script := range scripts {
		if script = strings.TrimSpace(notRun.ReplaceAllString(script, "")); script == "" {
			continue
		}
		t.Run(script, func(t *testing.T) {
			if !there {
				if out, exit := shell(t, "ip netns list | grep -q cni-1 || ip netns add cni-1; kubectl taint node n1 node.kubernetes.io/out-of-service- >/dev/null 2>&1 || :; kubectl apply -f - >/dev/null", bound); exit != 0 {
					t.Fatalf("bind names: %s", out)
				}
			}
			there = !deletes.MatchString(script)
			most := 0
			if strings.HasPrefix(script, "kubectl limpet") || strings.HasPrefix(script, "limpet-ipam") {
				most = 1 // the answer may be no
			}
			script = filter.ReplaceAllString(script, "| { $1 || :; }") // which may find nothing
			if out, exit := shell(t, here.Replace(placeholders.Replace(script)), ""); (exit > most || exit < 0) && !missing.MatchString(out) {
				t.Errorf("exit status %d:\n%s", exit, out)
			}
		})
	}
}
