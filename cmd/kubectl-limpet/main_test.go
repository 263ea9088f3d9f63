package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/limpet-io/limpet/internal/console"
	"github.com/limpet-io/limpet/internal/console/facts"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, appsv1beta1.AddToScheme, policyv1beta1.AddToScheme, limpetv1alpha1.AddToScheme, apiextensionsv1.AddToScheme))
}

// kubeconfig writes a kubeconfig for the API server of the tests.
func kubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	c := clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"test": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"test": {
			ClientCertificateData: config.CertData, ClientKeyData: config.KeyData, Token: config.BearerToken, Impersonate: config.Impersonate.UserName,
		}},
		Contexts:       map[string]*clientcmdapi.Context{"test": {Cluster: "test", AuthInfo: "test"}},
		CurrentContext: "test",
	}
	if err := clientcmd.WriteToFile(c, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// command runs a command line, and returns what it prints.
func command(t *testing.T, config *rest.Config, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot(surroundings{out: &out, err: io.Discard, now: time.Now})
	root.SetArgs(append([]string{"--kubeconfig", kubeconfig(t, config)}, args...))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// as runs a command for a report in JSON.
func as[R any](t *testing.T, config *rest.Config, args ...string) (report R, err error) {
	t.Helper()
	out, err := command(t, config, append(args, "-o", "json")...)
	if out != "" {
		if bad := json.Unmarshal([]byte(out), &report); bad != nil {
			t.Fatalf("%v: %v in %q", args, bad, out)
		}
	}
	return report, err
}

func TestStatusOfAClusterWithoutLimpet(t *testing.T) {
	r, err := as[console.StatusReport](t, env.Config, "status")
	if !errors.Is(err, errNo) || r.Well() || len(r.Problems) < 4 {
		t.Errorf("status: %v, %d problems, want exit status %d and a problem for each part", err, len(r.Problems), exitNo)
	}
	text, _ := command(t, env.Config, "status")
	if !strings.Contains(text, "limpet-controller is not installed") || strings.Contains(text, "\x1b") {
		t.Errorf("the table does not name the missing controller, or is coloured:\n%s", text)
	}
}

// TestAWaitForStatusThatIsOver ends the wait within a look: a client with one request at once, and a second between two,
// refuses a look that takes longer than is left. The answer is the last report.
func TestAWaitForStatusThatIsOver(t *testing.T) {
	slow := rest.CopyConfig(env.Config)
	slow.QPS, slow.Burst = 1, 1
	reader, err := client.New(slow, client.Options{Scheme: env.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	c := commands{surroundings: surroundings{err: &said, now: time.Now}, config: genericclioptions.NewConfigFlags(true)}
	last := console.StatusReport{Problems: []console.Problem{{Object: "web"}}}
	r, err := c.wait(t.Context(), facts.Reader{Client: reader, Now: time.Now}, last, 100*time.Millisecond)
	if err != nil || len(r.Problems) != 1 || !strings.Contains(said.String(), "waiting: ") {
		t.Errorf("%v, %v, said %q", r, err, said.String())
	}
}

// Events are texts of tenants. No command lets a terminal obey them.
func TestEscapesInAnEventReachNoTerminal(t *testing.T) {
	ns := env.Namespace(t)
	pod := testenv.APod("web-0").In(ns).On("n1").Ready().Pod
	env.Create(t, pod, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: ns, Name: "forged"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: ns, Name: pod.Name, UID: pod.UID},
		Source:         corev1.EventSource{Component: "limpet-controller"}, ReportingController: "limpet-controller",
		Reason: "Reserved", Message: "before\x1b[2J\u009b31m\nafter", LastTimestamp: metav1.Now(),
	})
	for _, format := range []string{"table", "wide", "json", "yaml"} {
		out, err := command(t, env.Config, "pod", pod.Name, "-n", ns, "-o", format)
		if err != nil || !strings.Contains(out, "before") || strings.ContainsAny(out, "\x1b\u009b") {
			t.Errorf("%s: %v, %q", format, err, out)
		}
		if format == "table" && strings.Contains(out, "\nafter") {
			t.Errorf("the event makes a row of its own: %q", out)
		}
	}
}

func TestColoursAreForTerminals(t *testing.T) {
	for _, tc := range []struct {
		noColor        string
		terminal, want bool
	}{{"", true, true}, {"1", true, false}, {"", false, false}, {"1", false, false}} {
		if got := coloured(tc.noColor, tc.terminal); got != tc.want {
			t.Errorf("NO_COLOR=%q, terminal %t: %t", tc.noColor, tc.terminal, got)
		}
	}
	var out bytes.Buffer
	root := newRoot(surroundings{out: &out, err: io.Discard, now: time.Now, colour: true})
	root.SetArgs([]string{"--kubeconfig", kubeconfig(t, env.Config), "status"})
	if err := root.ExecuteContext(t.Context()); !errors.Is(err, errNo) || !strings.Contains(out.String(), "\x1b[31mBroken\x1b[0m") {
		t.Errorf("status on a terminal: %v, want Broken in red\n%s", err, out.String())
	}
}

// TestAReportIsTheSameInYAML compares both forms for scripts.
func TestAReportIsTheSameInYAML(t *testing.T) {
	want, err := as[console.StatusReport](t, env.Config, "status")
	text, errYAML := command(t, env.Config, "status", "-o", "yaml")
	var got console.StatusReport
	if bad := yaml.UnmarshalStrict([]byte(text), &got); bad != nil || !errors.Is(err, errNo) || !errors.Is(errYAML, errNo) {
		t.Fatalf("JSON %v, YAML %v: %v in\n%s", err, errYAML, bad, text)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-JSON +YAML:\n%s", diff)
	}
}

func TestAUserWithoutRightsIsToldWhatIsUnread(t *testing.T) {
	stranger := rest.CopyConfig(env.Config)
	stranger.Impersonate.UserName = "stranger"
	r, err := as[console.StatusReport](t, stranger, "status")
	if err == nil || errors.Is(err, errNo) || len(r.Unread) == 0 || len(r.Problems) != 0 {
		t.Errorf("status: %v, unread %v, problems %v; want an error, all kinds unread and no problem", err, r.Unread, r.Problems)
	}
	if _, err := command(t, stranger, "audit"); err == nil || errors.Is(err, errNo) {
		t.Errorf("audit without rights: %v, want an error", err)
	}
}

func TestPodPlacementAndDrain(t *testing.T) {
	ns, node := env.Namespace(t), env.Node(t)
	set := testenv.AStatefulSet("web", 1).In(ns)
	env.Create(t, set.StatefulSet)
	state := testenv.APersistentPodState("web").In(ns).Requires(corev1.LabelHostname).
		Recorded("web-0", node.Name, map[string]string{corev1.LabelHostname: node.Name})
	pod := testenv.APod("web-0").In(ns).On(node.Name).OwnedBy(set.StatefulSet).At("10.0.0.2").Ready()
	env.Create(t, state.PersistentPodState, pod.Pod)

	h, err := as[console.HistoryReport](t, env.Config, "pod", "web-0", "-n", ns)
	if err != nil || h.RecordedNode != node.Name || h.IPs != "10.0.0.2" || !strings.Contains(h.Next, "returns to node "+node.Name) {
		t.Errorf("pod web-0: %v, %+v", err, h)
	}
	if _, err := command(t, env.Config, "pod", "web-9", "-n", ns); err == nil || !strings.Contains(err.Error(), "--namespace") {
		t.Errorf("an unknown pod: %v, want an error with a remedy", err)
	}
	for _, question := range []string{"placement", "pending", "address"} {
		text, err := command(t, env.Config, "explain", question, "web-0", "-n", ns)
		if err != nil || !strings.HasPrefix(text, question+" of "+ns+"/web-0: ") {
			t.Errorf("explain %s: %v\n%s", question, err, text)
		}
	}
	d, err := as[console.DrainReport](t, env.Config, "plan", "drain", node.Name)
	if err != nil || len(d.Pods) != 1 || d.Pods[0].Outcome != console.Returns {
		t.Errorf("plan drain: %v, %+v", err, d)
	}
}

func TestExplainEviction(t *testing.T) {
	ns := env.Namespace(t)
	free := testenv.APod("free").In(ns).Ready()
	held := testenv.APod("held").In(ns).Ready()
	held.Labels = map[string]string{"app": "held"}
	ring := &limpetv1alpha1.DistributedPodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "held"}}
	ring.Spec.Selector, ring.Spec.MaxUnavailable = &metav1.LabelSelector{MatchLabels: held.Labels}, &intstr.IntOrString{IntVal: 1}
	ring.Spec.Groups = &limpetv1alpha1.BudgetGroups{ByLabel: "app"}
	env.Create(t, free.Pod, held.Pod, ring, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "held"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &intstr.IntOrString{IntVal: 1}, Selector: &metav1.LabelSelector{MatchLabels: held.Labels},
		},
	})
	r, err := as[console.EvictionReport](t, env.Config, "explain", "eviction", "free", "-n", ns)
	if err != nil || !r.Allowed {
		t.Errorf("free pod: %v, %+v", err, r)
	}
	r, err = as[console.EvictionReport](t, env.Config, "explain", "eviction", "held", "-n", ns)
	if !errors.Is(err, errNo) || r.Allowed || r.Code != 429 || len(r.Causes) == 0 {
		t.Errorf("held pod: %v, %+v; want refused with 429 and its causes", err, r)
	}
	if len(r.Budgets) != 1 || len(r.Budgets[0].Places) != 1 || r.Budgets[0].Places[0].Pod != "held" {
		t.Errorf("held pod: its budget with groups is %+v", r.Budgets)
	}
	var after corev1.Pod
	env.Read(t, client.ObjectKeyFromObject(free.Pod), &after)
	if after.DeletionTimestamp != nil {
		t.Error("the question has evicted the pod")
	}
	if _, err := command(t, env.Config, "explain", "eviction", "absent", "-n", ns); err == nil || errors.Is(err, errNo) {
		t.Errorf("a pod that does not exist: %v, want an error", err)
	}
}

// TestUI opens the address that the command prints, and ends the command as Ctrl-C does.
func TestUI(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	printed, out := io.Pipe()
	root := newRoot(surroundings{out: out, err: io.Discard, now: time.Now})
	root.SetArgs([]string{"--kubeconfig", kubeconfig(t, env.Config), "ui", "-n", "shop"})
	ended := make(chan error, 1)
	go func() { ended <- root.ExecuteContext(ctx) }()
	line, err := bufio.NewReader(printed).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	address, token, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "open ")), "#")
	if !strings.HasPrefix(address, "http://127.0.0.1:") || len(token) < 20 {
		t.Fatalf("the command printed %q, want an address on loopback with a token", line)
	}
	ask, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"live", nil)
	if err != nil {
		t.Fatal(err)
	}
	ask.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(ask)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }() // the command ends meanwhile
	lines := bufio.NewScanner(answer.Body)
	if !lines.Scan() || lines.Text() != "event: board" || !lines.Scan() || !strings.Contains(lines.Text(), `"namespace":"shop"`) {
		t.Errorf("the stream begins with %q, want a board of the namespace shop", lines.Text())
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the end by Ctrl-C: %v", err)
	}
	if _, err := command(t, env.Config, "ui", "--refresh", "1s"); err == nil || !strings.Contains(err.Error(), "--refresh") {
		t.Errorf("--refresh 1s: %v, want an error that names the flag", err)
	}
}

func TestOutputIsChecked(t *testing.T) {
	if _, err := command(t, env.Config, "status", "-o", "xml"); err == nil || !strings.Contains(err.Error(), "--output") {
		t.Errorf("-o xml: %v, want an error that names the flag", err)
	}
}

func TestASubcommandThatDoesNotExist(t *testing.T) {
	for _, group := range []string{"explain", "plan"} {
		if _, err := command(t, env.Config, group, "pods", "web-0"); err == nil || !strings.Contains(err.Error(), `"pods"`) {
			t.Errorf("%s pods: %v, want an error that names the word", group, err)
		}
		if out, err := command(t, env.Config, group); err != nil || !strings.Contains(out, "Available Commands:") {
			t.Errorf("%s: %v, want its help, got %q", group, err, out)
		}
	}
}
