package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1alpha1 "github.com/limpet-io/limpet/pkg/api/apps/v1alpha1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1alpha1 "github.com/limpet-io/limpet/pkg/api/policy/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
	"github.com/limpet-io/limpet/test/disruptions"
)

// replicaVar makes the test binary run as the controller itself.
const replicaVar = "LIMPET_TEST_REPLICA"

// aheadVar sets the clock of such a controller ahead.
const aheadVar = "LIMPET_TEST_AHEAD"

// aheadClock is ahead of the clock of the machine.
type aheadClock struct {
	clock.RealClock
	ahead time.Duration
}

func (c aheadClock) Now() time.Time                  { return c.RealClock.Now().Add(c.ahead) }
func (c aheadClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

var env *testenv.Env

func TestMain(m *testing.M) {
	if os.Getenv(replicaVar) != "" {
		ahead, _ := time.ParseDuration(os.Getenv(aheadVar)) // 0 where it is not set
		wallClock = aheadClock{ahead: ahead}
		os.Exit(run())
	}
	os.Exit(testenv.MainAudited(m, os.Getenv(testenv.AssetsVar), &env, disruptions.AuditPolicy,
		limpetv1alpha1.AddToScheme, appsv1alpha1.AddToScheme, policyv1alpha1.AddToScheme, policyv1beta1.AddToScheme, apiextensionsv1.AddToScheme))
}

// replica is a controller process.
type replica struct {
	cmd     *exec.Cmd
	args    []string
	env     []string
	webhook string // host:port
	health  string
	metrics string
	log     string // the file of its log, since it was started last
}

// install makes what deploy/ makes around the controller, apart from the Deployment.
func install(t *testing.T) {
	t.Helper()
	env.AsController(t) // applies rbac.yaml
	env.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "limpet-system", Name: "limpet-controller-certificate"}})
	// A leader that is killed leaves its lease behind, for which the next test would wait.
	env.RemoveAtEnd(t, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "limpet-system", Name: "limpet-controller"}})
}

// startReplica runs a controller with further flags; waitReady waits until it is ready.
func startReplica(t *testing.T, flags ...string) *replica {
	t.Helper()
	return startReplicaWith(t, env.Kubeconfig(t, testenv.ControllerUser), flags...)
}

// startReplicaWith runs a controller with a kubeconfig.
func startReplicaWith(t *testing.T, kubeconfig string, flags ...string) *replica {
	t.Helper()
	r := &replica{webhook: testenv.FreeAddress(t), health: testenv.FreeAddress(t), metrics: testenv.FreeAddress(t)}
	_, port, _ := net.SplitHostPort(r.webhook)
	mounted := t.TempDir() // the rotator gives up after some ten minutes where no Secret is mounted
	if err := os.WriteFile(filepath.Join(mounted, "tls.crt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.args = []string{
		"--webhook-port=" + port, "--health-address=" + r.health,
		"--metrics-address=" + r.metrics, "--dns-names=localhost", "--cert-dir=" + mounted,
	}
	r.args = append(r.args, flags...)
	r.env = []string{replicaVar + "=1", "KUBECONFIG=" + kubeconfig}
	r.start(t)
	t.Cleanup(func() { r.kill(t) })
	return r
}

// start starts the process, also a second time after it was killed.
func (r *replica) start(t *testing.T) {
	t.Helper()
	r.cmd = exec.Command(os.Args[0], r.args...)
	r.cmd.Env = append(os.Environ(), r.env...)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	r.cmd.Stdout, r.cmd.Stderr, r.log = log, log, log.Name()
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := r.cmd.Process.Pid
	t.Cleanup(func() {
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("replica %d:\n%s", pid, text)
		}
	})
}

// startBoth starts two replicas at once, as a Deployment does, so that both find no
// certificate. It returns the leader first, to which the API server sends its requests.
func startBoth(t *testing.T) (leader, other *replica) {
	t.Helper()
	leader, other = startReplica(t), startReplica(t)
	pointWebhooksAt(t, leader)
	leader.waitReady(t)
	other.waitReady(t)
	testenv.Eventually(t, func() error {
		switch {
		case leader.leads(t):
			return nil
		case other.leads(t):
			leader, other = other, leader
			return nil
		}
		return errors.New("no replica leads")
	})
	pointWebhooksAt(t, leader)
	return leader, other
}

func (r *replica) leads(t *testing.T) bool {
	t.Helper()
	return strings.Contains(r.scrape(t), "\nlimpet_leader 1\n")
}

func (r *replica) kill(t *testing.T) {
	t.Helper()
	if r.cmd.ProcessState != nil {
		return
	}
	if err := r.cmd.Process.Kill(); err != nil {
		t.Errorf("kill replica: %v", err)
	}
	_ = r.cmd.Wait() // it was killed, and says so
}

// waitReady waits until a replica is ready. A replica that stops being healthy is restarted
// once, as a kubelet would by the probe of deploy/controller.
func (r *replica) waitReady(t *testing.T) {
	t.Helper()
	for restarted := false; ; restarted = true {
		ill := false
		testenv.Within(t, 2*time.Minute, func() error {
			status, err := r.ask(t, "/healthz")
			if ill = err == nil && status != http.StatusOK; ill && !restarted {
				return nil
			}
			if status, err = r.ask(t, "/readyz"); err == nil && status != http.StatusOK {
				err = fmt.Errorf("readyz: %d", status)
			}
			return err
		})
		if !ill || restarted {
			return
		}
		t.Logf("replica %d is not healthy: restart it", r.cmd.Process.Pid)
		r.kill(t)
		r.start(t)
	}
}

// ask returns what a health check answers.
func (r *replica) ask(t *testing.T, check string) (status int, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.health+check, nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	_ = resp.Body.Close() // nothing in it is read
	return resp.StatusCode, nil
}

// within returns a context for one request of a test.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// scrape returns what a replica shows to Prometheus.
func (r *replica) scrape(t *testing.T) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.metrics+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
