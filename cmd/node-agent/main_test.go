package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/ipam"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/internal/version"
	"github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// agentVar makes the test binary run as the agent itself.
const agentVar = "LIMPET_TEST_AGENT"

var env *testenv.Env

func TestMain(m *testing.M) {
	if os.Getenv(agentVar) != "" {
		os.Exit(run())
	}
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, v1alpha1.AddToScheme))
}

// TestVersionOfTheProcess runs the agent without a node, state or API server, for its version.
func TestVersionOfTheProcess(t *testing.T) {
	for _, argument := range []string{"version", "--version"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], argument)
		cmd.Env = append(os.Environ(), agentVar+"=1", "KUBECONFIG=/nonexistent")
		out, err := cmd.CombinedOutput()
		if want := "limpet-agent " + version.String() + "\n"; err != nil || string(out) != want {
			t.Errorf("limpet-agent %s: %v, want %q, got\n%s", argument, err, want, out)
		}
	}
}

// TestAgentProcess runs the agent with the rights that deploy/daemonset gives it at the API
// server, and without root's capabilities. The agent stores what a pod asks for, shows it,
// answers probes and ends on SIGTERM. It is the first start on its node, and its log has no error.
func TestAgentProcess(t *testing.T) {
	env.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "limpet-system"}})
	grant(t)
	awaitRights(t)
	enforce(t)
	state := filepath.Join(t.TempDir(), "state")
	pod := testenv.APod("web-0").On("n1").With(reservation.RetainAnnotation, "10")
	env.Create(t, pod.Pod)
	address := testenv.FreeAddress(t)
	cmd := startAgent(t, "--state-dir="+state, "--address="+address)
	testenv.Eventually(t, func() error {
		if got := get(t, "http://"+address+"/readyz"); !strings.Contains(got, "ok") {
			return fmt.Errorf("an agent without a state is not ready: %s", got)
		}
		return nil
	})
	attach(t, state, string(pod.UID))
	testenv.Eventually(t, func() error {
		var list v1alpha1.IPReservationList
		if err := env.Client.List(t.Context(), &list, client.MatchingLabels{v1alpha1.LabelNode: "n1"}); err != nil {
			return err
		}
		if len(list.Items) != 1 || list.Items[0].Status.RetainMinutes != 10 {
			return fmt.Errorf("IPReservations: %+v", list.Items)
		}
		return nil
	})
	testenv.Eventually(t, func() error { // this program stands in for the plugin
		var list v1alpha1.NodeIPPoolList
		if err := env.Client.List(t.Context(), &list, client.MatchingLabels{v1alpha1.LabelNode: "n1"}); err != nil {
			return err
		}
		if !slices.ContainsFunc(list.Items, func(p v1alpha1.NodeIPPool) bool {
			return p.Status.AgentVersion == version.Release() && p.Status.PluginVersion == version.Release()
		}) {
			return fmt.Errorf("the pools tell no versions: %+v", list.Items)
		}
		return nil
	})
	testenv.Eventually(t, func() error {
		var events corev1.EventList
		if err := env.Client.List(t.Context(), &events, client.InNamespace("default")); err != nil {
			return err
		}
		if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool { return e.Reason == plan.ReasonForeignNetwork }) {
			return errors.New("there is no event about the foreign network")
		}
		return nil
	})
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz": "ok", "/metrics": `limpet_pool_pods{network="net",state="attached"} 1`,
	} {
		if got := get(t, "http://"+address+path); !strings.Contains(got, want) {
			t.Errorf("GET %s: %q lacks %q", path, got, want)
		}
	}
	noErrors(t, cmd)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("agent after SIGTERM: %v", err)
	}
}

// errorLine is a line that the logger writes for an error.
var errorLine = regexp.MustCompile(`(?m)^E\d{4} .*$|"err"=.*$`)

// noErrors fails the test for each error line in the log of an agent.
func noErrors(t *testing.T, agent *exec.Cmd) {
	t.Helper()
	text, err := os.ReadFile(agent.Stderr.(*os.File).Name())
	if err != nil {
		t.Fatal(err)
	}
	if len(text) == 0 {
		t.Error("the agent logs nothing")
	}
	for _, line := range errorLine.FindAllString(string(text), -1) {
		t.Errorf("agent: %s", line)
	}
}

func grant(t *testing.T) {
	t.Helper()
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(root, "deploy", "daemonset", "rbac.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	for decoder := utilyaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		o := &unstructured.Unstructured{}
		switch err := decoder.Decode(o); {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			t.Fatal(err)
		}
		env.Create(t, o)
	}
}

// attach stores an attachment as an ADD does when the runtime passes on no annotations.
func attach(t *testing.T, state, uid string) {
	t.Helper()
	sets, err := ipam.CompleteSets([]ipam.Set{{{Subnet: netip.MustParsePrefix("10.1.0.0/24")}}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(sets)
	if err != nil {
		t.Fatal(err)
	}
	err = persistence.New(persistence.Options{Dir: state}).Update(t.Context(), func(tx *persistence.Tx) error {
		return errors.Join(tx.SetConfig("net", data), tx.PutAttachment(reservation.Attachment{
			ID:    reservation.AttachmentID{Network: "net", ContainerID: "c", IfName: "eth0"},
			Owner: reservation.Owner{Network: "net", Namespace: "default", Pod: "web-0", IfName: "eth0"},
			UID:   uid, Addresses: []netip.Addr{netip.MustParseAddr("10.1.0.2")},
		}))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// startAgent runs the agent of node n1, whose network configuration names another plugin. The
// process is killed at the end of the test if it still runs.
func startAgent(t testing.TB, flags ...string) *exec.Cmd {
	t.Helper()
	dir := t.TempDir()
	conf := filepath.Join(dir, "conf")
	err := errors.Join(os.Mkdir(conf, 0o755), os.WriteFile(filepath.Join(conf, "10-other.conf"), []byte(`{"type":"bridge"}`), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	flags = append([]string{"--plugin=" + os.Args[0], "--cni-bin-dir=" + filepath.Join(dir, "bin"), "--cni-conf-dir=" + conf}, flags...)
	powerless := []string{"--inh-caps=-all", "--bounding-set=-all", os.Args[0]} // as capabilities: {drop: [ALL]}
	cmd := exec.Command("setpriv", append(powerless, flags...)...)
	cmd.Env = append(os.Environ(), agentVar+"=1", "NODE_NAME=n1", "KUBECONFIG="+kubeconfig(t))
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill() // the test has failed already
			_ = cmd.Wait()
		}
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("agent:\n%s", text)
		}
	})
	return cmd
}

func kubeconfig(t testing.TB) string {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["test"] = &clientcmdapi.Cluster{Server: env.Config.Host, CertificateAuthorityData: env.Config.CAData}
	c.AuthInfos["test"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: env.Config.CertData, ClientKeyData: env.Config.KeyData,
		Impersonate: agentUser, ImpersonateUserExtra: onNode,
	}
	c.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	c.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// get waits until the server answers and returns the body.
func get(t testing.TB, url string) (body string) {
	t.Helper()
	c := http.Client{Timeout: time.Minute}
	testenv.Eventually(t, func() error {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := c.Do(req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }() // it is read to its end
		data, err := io.ReadAll(resp.Body)
		body = string(data)
		return err
	})
	return body
}
