// Package autoscalers_test runs Karpenter beside limpet-controller and a real scheduler, and the health checks of GitOps tools.
package autoscalers_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	kwokapis "sigs.k8s.io/karpenter/kwok/apis"
	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/apis"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/overlay"
	"sigs.k8s.io/karpenter/pkg/controllers"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator"
	"sigs.k8s.io/yaml"
)

const (
	hostname, zone = corev1.LabelHostname, corev1.LabelTopologyZone
	doNotDisrupt   = "karpenter.sh/do-not-disrupt"
	// What Karpenter says.
	added   = "Nominated: Pod should schedule on: nodeclaim/"
	failed  = "FailedScheduling: Failed to schedule pod, using label kubernetes.io/hostname is not allowed"
	blocked = "DisruptionBlocked: "
	refused = "FailedDraining: Failed to drain node, evicting pod violates a PDB"
)

var env *testenv.Env

var said = &notes{of: map[types.UID][]string{}}

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, limpetv1alpha1.AddToScheme, apiextensionsv1.AddToScheme))
}

func TestKarpenter(t *testing.T) {
	startLimpet(t)
	startKarpenter(t)
	env.StartScheduler(t, "DefaultPreemption") // which would end the nomination of a pod that it refuses at once
	env.StartControllers(t, "disruption-controller")
	web := testenv.APersistentPodState
	for name, tc := range map[string]struct {
		state testenv.PersistentPodState
		room  int64 // CPUs of the home, of which another pod has 2
		gates []string
		gone  bool   // the Node of the home is deleted
		stage string // in which Karpenter shall ignore the pod
		want  string // what it says of the pod at last
		zone  string // which it asks of the node
	}{
		"a node is added for a pod that prefers its host":              {web("web").Prefers(100, hostname), 4, nil, false, "", added, ""},
		"a node is added in the zone of a pod that requires it":        {web("web").Requires(zone), 4, nil, false, "", added, "[test-zone-b]"},
		"no node is added for a pod that requires its host":            {web("web").Requires(hostname), 4, nil, false, "", failed, ""},
		"a node is added when the gate is open":                        {web("web").Prefers(100, hostname), 4, []string{"example.com/gate"}, false, pin.ReasonOtherGates, added, ""},
		"a node is added when the nomination ends":                     {web("web").Prefers(100, hostname), 8, nil, false, pin.ReasonLingers, added, ""},
		"a node is added for a pod whose home is gone":                 {web("web").Prefers(100, hostname), 4, nil, true, "", added, ""},
		"no node is added for a pod that requires a home that is gone": {web("web").Requires(hostname), 4, nil, true, "", failed, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			home := s.node(t, tc.room)
			former, pod := s.pod("web-0", 3).On(home.Name).Ready(), s.pod("web-0", 3).Gated(tc.gates...).Pod
			env.Create(t, tc.state.In(s.set.Namespace).PersistentPodState, former.Pod)
			env.RecordedOn(t, s.set, map[string]string{"web-0": home.Name})
			env.Remove(t, former.Pod)
			if tc.gone {
				env.Remove(t, home.Node)
			} else {
				env.Create(t, s.pod("other", 2).On(home.Name).Ready().Pod)
			}
			put(t, pod)
			if tc.stage != "" {
				await(t, pod, func() bool { return pin.Stage(pod) == tc.stage })
			}
			s.looks(t)
			words := said.about(pod, "")
			if env.Read(t, client.ObjectKeyFromObject(pod), pod); tc.stage != "" && pin.Stage(pod) == tc.stage && len(words) > 0 {
				t.Errorf("Karpenter says %q of a pod that it shall ignore", words)
			}
			if tc.gates != nil {
				env.Patch(t, pod, fmt.Sprintf(`{"spec":{"schedulingGates":[{"name":%q}]}}`, pin.Gate))
			}
			says(t, pod, tc.want, 1)
			claim, claims := object(t, "{apiVersion: karpenter.sh/v1, kind: NodeClaim}"), said.about(pod, added)
			if len(claims) > 0 {
				env.Read(t, client.ObjectKey{Name: strings.TrimPrefix(claims[0], added)}, claim)
			}
			if (len(claims) > 0) != (tc.want == added) || !strings.Contains(fmt.Sprint(claim.Object["spec"]), tc.zone) {
				t.Errorf("Karpenter says %q; the NodeClaim is %v, want zone %q", said.about(pod, ""), claim.Object["spec"], tc.zone)
			}
		})
	}
	const kubernetes, limpet = "apiVersion: policy/v1, kind: PodDisruptionBudget", "apiVersion: policy.kruise.io/v1beta1, kind: PodUnavailableBudget"
	for name, tc := range map[string]struct {
		hold func(*testing.T, scene) (free func())
		end  bool   // a person deletes the Node
		want string // what Karpenter says of the Node until it is free
	}{
		"a node ends once it holds no reservation":                 {reserved, false, blocked + `Disruption is blocked through the "karpenter.sh/do-not-disrupt" annotation`},
		"a node ends once no pod has the annotation":               {annotated, false, blocked + `Pod has "karpenter.sh/do-not-disrupt" annotation`},
		"a node ends once a PodDisruptionBudget has room":          {budget(kubernetes), false, blocked + "Pdb prevents pod evictions"},
		"a node drains once a PodDisruptionBudget has room":        {budget(kubernetes), true, refused},
		"a node drains once a PodUnavailableBudget alone has room": {budget(limpet), false, refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.starts(t)
			free := tc.hold(t, s)
			if s.node(t, 8); tc.end { // which has room for the pod
				env.Remove(t, s.own)
			}
			says(t, s.own, tc.want, 2)
			free()
			env.Annotate(t, s.pool, "example.com/changed", "yes") // else Karpenter may look again in five minutes only
			testenv.Within(t, 4*time.Minute, func() error {
				if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(s.own), &corev1.Node{}); !apierrors.IsNotFound(err) {
					return fmt.Errorf("read node %s: %w, want none; Karpenter says %q", s.own.Name, err, said.about(s.own, ""))
				}
				return nil
			})
		})
	}
}

// reserved keeps the node, without pods, by a reservation, as deploy/keep-nodes says.
func reserved(t *testing.T, s scene) (free func()) {
	pool := &limpetv1alpha1.NodeIPPool{ObjectMeta: metav1.ObjectMeta{Name: "net." + s.own.Name}, Status: limpetv1alpha1.NodeIPPoolStatus{Node: s.own.Name, Network: "net", Total: 9, Reserved: 1, Free: 8}}
	env.Create(t, pool)
	await(t, s.own, func() bool { return s.own.Annotations[doNotDisrupt] == "true" })
	env.Remove(t, s.guest)
	return func() { env.Patch(t, pool, `{"status":{"reserved":0}}`) }
}

func annotated(t *testing.T, s scene) (free func()) {
	env.Annotate(t, s.guest, doNotDisrupt, "true")
	return func() { env.Annotate(t, s.guest, doNotDisrupt, "") }
}

// budget lets no pod go until it is free.
func budget(kind string) func(*testing.T, scene) func() {
	return func(t *testing.T, s scene) (free func()) {
		o := object(t, fmt.Sprintf("{%s, metadata: {name: web, namespace: %s}, spec: {maxUnavailable: 0, selector: {matchLabels: {app: web}}}}", kind, s.set.Namespace))
		env.Create(t, o)
		return func() { env.Patch(t, o, `{"spec":{"maxUnavailable":1}}`) }
	}
}

// scene is a workload whose pods run on the nodes of one NodePool, and on those that the test makes.
type scene struct {
	pool  *unstructured.Unstructured
	set   testenv.StatefulSet
	guest *corev1.Pod // for which Karpenter adds the node own
	own   *corev1.Node
}

func newScene(t *testing.T) scene {
	pool := object(t, fmt.Sprintf(`{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: %[1]s}, spec: {
		disruption: {consolidateAfter: 0s, consolidationPolicy: WhenEmptyOrUnderutilized, budgets: [{nodes: 100%%}]},
		template: {metadata: {labels: {example.com/case: %[1]s}}, spec: {requirements: [], nodeClassRef: {group: karpenter.kwok.sh, kind: KWOKNodeClass, name: default}}}}}`, env.Name("case")))
	set := testenv.AStatefulSet("web", 1).In(env.Namespace(t))
	env.Create(t, pool, set.StatefulSet)
	return scene{pool: pool, set: set}
}

// pod is a pod for the nodes of the scene. No node takes two, because all have the same port.
func (s scene) pod(name string, cpus int64) testenv.Pod {
	pod := testenv.APod(name).In(s.set.Namespace).Asking(cpus).OwnedBy(s.set.StatefulSet)
	pod.Labels, pod.Spec.NodeSelector = map[string]string{"app": "web"}, map[string]string{"example.com/case": s.pool.GetName()}
	pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
	pod.Spec.TerminationGracePeriodSeconds = new(int64(0)) // no kubelet ends it
	return pod
}

// node makes a node that Karpenter does not manage.
func (s scene) node(t *testing.T, cpus int64) testenv.Node {
	node := testenv.ANode(env.Name("node")).Labelled("example.com/case", s.pool.GetName()).Labelled(zone, "test-zone-b").WithRoom(20, cpus)
	env.Create(t, node.Node)
	return node
}

// looks waits until Karpenter has looked at all pods: it adds a node for a later one.
func (s scene) looks(t *testing.T) {
	later := s.pod(env.Name("later"), 1).Pod
	put(t, later)
	says(t, later, added, 1)
}

// starts makes a pod for which Karpenter adds a node, and has both start, as a kubelet does.
func (s *scene) starts(t *testing.T) {
	s.guest, s.own = s.pod("web-0", 1).Pod, &corev1.Node{}
	put(t, s.guest)
	await(t, s.guest, func() bool { return s.guest.Spec.NodeName != "" })
	env.Read(t, client.ObjectKey{Name: s.guest.Spec.NodeName}, s.own)
	env.ChangeStatus(t, s.own, func() { s.own.Status.Conditions = testenv.ANode("").Status.Conditions })
	env.ChangeStatus(t, s.guest, func() { s.guest.Status = testenv.APod("").Ready().Status })
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return o
}

// put creates a pod, whose status only Limpet and the scheduler write.
func put(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if err := env.Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	env.RemoveAtEnd(t, pod)
}

// await reads an object until it is as wanted.
func await(t *testing.T, o client.Object, wanted func() bool) {
	t.Helper()
	testenv.Eventually(t, func() error {
		if env.Read(t, client.ObjectKeyFromObject(o), o); !wanted() {
			return fmt.Errorf("not as wanted: %+v", o)
		}
		return nil
	})
}

// says waits until Karpenter has said something of an object so many times.
func says(t *testing.T, o client.Object, words string, times int) {
	t.Helper()
	testenv.Within(t, 4*time.Minute, func() error {
		if len(said.about(o, words)) < times {
			return fmt.Errorf("Karpenter says %q of %s, want %d times %q", said.about(o, ""), o.GetName(), times, words)
		}
		return nil
	})
}

// notes are what Karpenter says of objects, each time that it looks at them. Its events repeat nothing for minutes.
type notes struct {
	sync.Mutex
	of map[types.UID][]string
}

// Publish takes what would become events.
func (n *notes) Publish(all ...events.Event) {
	n.Lock()
	defer n.Unlock()
	for _, e := range all {
		if o, err := meta.Accessor(e.InvolvedObject); err == nil {
			n.of[o.GetUID()] = append(n.of[o.GetUID()], e.Reason+": "+e.Message)
		}
	}
}

// about returns what was said of an object, if it begins with some words.
func (n *notes) about(o client.Object, words string) []string {
	n.Lock()
	defer n.Unlock()
	return slices.DeleteFunc(slices.Clone(n.of[o.GetUID()]), func(s string) bool { return !strings.HasPrefix(s, words) })
}

// startLimpet runs limpet-controller as a process, with the webhooks and rights of deploy/, until the test ends.
func startLimpet(t *testing.T) {
	env.AsController(t)
	for _, o := range slices.Concat(env.Manifest(t, "deploy/keep-nodes/policy.yaml"), env.Manifest(t, "deploy/keep-nodes/rbac.yaml")) {
		env.Create(t, o)
	}
	env.Create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "limpet-system", Name: "limpet-controller-certificate"}})
	program := filepath.Join(t.TempDir(), "limpet-controller")
	build := exec.CommandContext(t.Context(), "go", "-C", "../..", "build", "-o", program, "./cmd/controller")
	_, port, _ := net.SplitHostPort(testenv.FreeAddress(t))
	cmd := exec.CommandContext(t.Context(), program, "--webhook-port="+port, "--health-address=0", "--metrics-address=0",
		"--dns-names=localhost", "--cert-dir="+t.TempDir(), "--keep-nodes")
	cmd.Env = append(os.Environ(), "KUBECONFIG="+env.Kubeconfig(t, testenv.ControllerUser))
	build.Stderr, cmd.Stdout, cmd.Stderr = t.Output(), t.Output(), t.Output()
	if err := errors.Join(build.Run(), cmd.Start()); err != nil {
		t.Fatalf("start limpet-controller: %v", err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // it was killed, and says so
	env.ConvertAt(t, "localhost:"+port, nil)
	w := testenv.ReadWebhooks(t)
	at := func(c admissionv1.WebhookClientConfig) admissionv1.WebhookClientConfig {
		return admissionv1.WebhookClientConfig{URL: new("https://localhost:" + port + *c.Service.Path)}
	}
	for i := range w.Mutating.Webhooks {
		w.Mutating.Webhooks[i].ClientConfig = at(w.Mutating.Webhooks[i].ClientConfig)
	}
	for i := range w.Validating.Webhooks {
		w.Validating.Webhooks[i].ClientConfig = at(w.Validating.Webhooks[i].ClientConfig)
	}
	env.Create(t, w.Mutating, w.Validating)
	testenv.Eventually(t, func() error {
		env.Read(t, client.ObjectKeyFromObject(w.Mutating), w.Mutating)
		env.Read(t, client.ObjectKeyFromObject(w.Validating), w.Validating)
		if w.Mutating.Webhooks[0].ClientConfig.CABundle == nil || w.Validating.Webhooks[0].ClientConfig.CABundle == nil {
			return errors.New("limpet-controller has not written its authority")
		}
		return env.Client.Create(t.Context(), testenv.APersistentPodState("probe").Requires(zone).PersistentPodState, client.DryRunAll)
	})
}

// startKarpenter runs all controllers of Karpenter with its provider for kwok, as its program does, until the test ends.
func startKarpenter(t *testing.T) {
	if _, err := envtest.InstallCRDs(env.Config, envtest.CRDInstallOptions{CRDs: slices.Concat(apis.CRDs, kwokapis.CRDs)}); err != nil {
		t.Fatalf("install the kinds of Karpenter: %v", err)
	}
	env.Create(t, object(t, `{apiVersion: karpenter.kwok.sh/v1alpha1, kind: KWOKNodeClass, metadata: {name: default}}`))
	for name, value := range map[string]string{
		"KUBECONFIG": env.Kubeconfig(t, ""), "DISABLE_LEADER_ELECTION": "true", "METRICS_PORT": "0", "HEALTH_PROBE_PORT": "0", "LOG_LEVEL": "error",
	} {
		t.Setenv(name, value)
	}
	os.Args = os.Args[:1] // Karpenter parses the rest
	ctx, op := operator.NewOperator()
	offers, err := kwok.ConstructInstanceTypes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cloud := kwok.NewCloudProvider(ctx, op.GetClient(), offers)
	decorated := overlay.Decorate(cloud, op.GetClient(), op.InstanceTypeStore)
	op.WithControllers(ctx, controllers.NewControllers(ctx, op.Manager, op.Clock, op.GetClient(), said, decorated, cloud,
		state.NewCluster(op.Clock, op.GetClient(), decorated), op.InstanceTypeStore)...)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- op.Manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Karpenter ended: %v", err)
		}
	})
}
