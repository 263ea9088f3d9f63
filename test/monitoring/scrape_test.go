package monitoring_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/test/cniexec"
	"github.com/limpet-io/limpet/test/monitoring"
	"github.com/limpet-io/limpet/test/programs"
)

// agentUser is the service account of deploy/daemonset.
const agentUser = "system:serviceaccount:limpet-system:limpet-agent"

// TestEachQueryReturnsData has a real Prometheus scrape a controller and an agent. Each query of
// each dashboard and of each variable returns data. Prometheus loads each rule and evaluates it
// without an error, and each series that an alert reads exists.
func TestEachQueryReturnsData(t *testing.T) {
	dir := t.TempDir()
	alerts, files := rules(t, dir)
	rebuild := build(t, dir)
	workload(t)
	p := &server{monitoring.Server{Address: testenv.FreeAddress(t)}}
	p.start(t, dir, files, controller(t, dir), agent(t, dir))
	rebuild()
	p.returns(t, "verbs", `limpet_plugin_verb_seconds_count{verb="DEL",outcome="freed"} == 1`) // of an ADD that has no result
	p.returns(t, "verbs", `limpet_plugin_verb_seconds_count{verb="ADD",outcome="new"} == 1`)
	queries, err := monitoring.Queries(root, "shop", "db")
	if err != nil || len(queries) < 90 {
		t.Errorf("asked %d queries: the test tests little; %v", len(queries), err)
	}
	for _, q := range queries {
		p.returns(t, q.Of, q.Expr)
	}
	testenv.Eventually(t, func() error { return p.Evaluated(t.Context(), len(alerts)) })
}

// build builds the programs, and starts a pod with limpet-ipam. rebuild ends the pod and starts it again.
func build(t *testing.T, dir string) (rebuild func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", dir+"/", "./cmd/controller", "./cmd/node-agent")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	if emulator != "" {
		if err := cniexec.Emulate(t.Context(), root, emulator, filepath.Join(dir, "node-agent"), "./cmd/node-agent"); err != nil {
			t.Fatal(err)
		}
	}
	built, err := cniexec.Build(t.Context(), root, dir, os.Getenv(programs.Var))
	if err != nil {
		t.Fatal(err)
	}
	conf := fmt.Sprintf(`{"cniVersion":"1.0.0","name":"net","type":"bridge","ipam":{"type":"limpet-ipam","dataDir":%q,"logFile":%q,"ranges":[[{"subnet":"10.9.0.0/24"}]]},`+
		`"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"io.kubernetes.cri/reserved-ip-duration":"30"}}}`, filepath.Join(dir, "state"), filepath.Join(dir, "ipam.log"))
	alone, err := cniexec.NewNetNS()
	if err != nil {
		t.Fatal(err)
	}
	run := func(verb string) {
		call := cniexec.Call{
			Plugin: built.Limpet, Verb: verb, Container: "c1", IfName: "eth0", NetNS: "/proc/1/ns/net", Path: built.Path(),
			Args: "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=db-0;K8S_POD_UID=u1;IgnoreUnknown=1", Stdin: []byte(conf),
		}
		err := alone.In(func() error {
			answer, err := call.Run(t.Context())
			if err == nil && answer.Exit != 0 {
				err = fmt.Errorf("%s: %s%s", verb, answer.Stdout, answer.Stderr)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	run("ADD")
	return func() { run("DEL"); run("ADD") }
}

// workload makes a PersistentPodState that has seen rebuilds.
func workload(t *testing.T) {
	t.Helper()
	env.AsController(t)
	for _, o := range env.Manifest(t, "deploy/daemonset/rbac.yaml") {
		env.Create(t, o)
	}
	env.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	env.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "limpet-system", Name: "limpet-controller-certificate"}})
	env.Create(t, testenv.ANode("n1").Node)
	state := testenv.APersistentPodState("db").In("shop").Requires("kubernetes.io/hostname").Recorded("db-0", "n1", nil).PersistentPodState
	status := state.Status
	status.Rebuilds = &appsv1beta1.Rebuilds{Kept: 3, Moved: 2, Lost: 1, Last: &appsv1beta1.Rebuild{Pod: "db-0", Outcome: appsv1beta1.Kept, Time: metav1.Now()}}
	env.Create(t, state)
	state.Status = status
	if err := env.Client.Status().Update(t.Context(), state); err != nil {
		t.Fatal(err)
	}
}

func controller(t *testing.T, dir string) (metrics string) {
	t.Helper()
	metrics = testenv.FreeAddress(t)
	port := testenv.FreePort(t)
	launch(t, filepath.Join(dir, "controller"), env.Kubeconfig(t, testenv.ControllerUser),
		"--webhook-port="+port, "--health-address=0", "--metrics-address="+metrics, "--dns-names=localhost", "--cert-dir="+t.TempDir())
	return metrics
}

func agent(t *testing.T, dir string) (metrics string) {
	t.Helper()
	metrics = testenv.FreeAddress(t)
	conf := filepath.Join(dir, "conf")
	if err := os.Mkdir(conf, 0o755); err != nil {
		t.Fatal(err)
	}
	launch(t, filepath.Join(dir, "node-agent"), env.Kubeconfig(t, agentUser),
		"--node-name=n1", "--address="+metrics, "--state-dir="+filepath.Join(dir, "state"), "--plugin-log="+filepath.Join(dir, "ipam.log"), "--pods=api",
		"--plugin="+filepath.Join(dir, "limpet-ipam"), "--cni-bin-dir="+filepath.Join(dir, "bin"), "--cni-conf-dir="+conf, "--netns-dir="+t.TempDir())
	return metrics
}

// launch runs a program until the test ends, and shows its output when the test fails.
func launch(t *testing.T, program, kubeconfig string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err == nil {
		cmd.Stdout, cmd.Stderr = log, log
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it has no data worth an end in order
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(program), text[max(0, len(text)-8000):])
		}
	})
}

// server is a Prometheus on loopback.
type server struct{ monitoring.Server }

func (p *server) start(t *testing.T, dir string, ruleFiles []string, addresses ...string) {
	t.Helper()
	var targets []monitoring.Target
	for _, address := range addresses {
		targets = append(targets, monitoring.Target{Address: address})
	}
	args, err := p.Arguments(dir, 500*time.Millisecond, ruleFiles, targets)
	if err != nil {
		t.Fatal(err)
	}
	launch(t, prometheus.Prometheus, "", args...)
	for _, address := range addresses {
		testenv.Within(t, 2*time.Minute, func() error { return p.HasData(t.Context(), fmt.Sprintf(`up{instance=%q} == 1`, address)) })
	}
	testenv.Eventually(t, func() error { return p.HasData(t.Context(), "limpet_leader == 1") })
	testenv.Eventually(t, func() error { return p.HasData(t.Context(), "limpet_agent_audit_timestamp_seconds > 0") })
}

// returns fails the test when a query returns nothing.
func (p *server) returns(t *testing.T, what, query string) {
	t.Helper()
	var err error
	deadline := time.Now().Add(time.Minute)
	for err = p.HasData(t.Context(), query); err != nil && time.Now().Before(deadline); err = p.HasData(t.Context(), query) {
		select {
		case <-t.Context().Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}
