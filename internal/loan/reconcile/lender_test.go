package reconcile_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/limpet-io/limpet/internal/loan"
	controller "github.com/limpet-io/limpet/internal/loan/reconcile"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/platform/workloads"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env, limpetv1alpha1.AddToScheme, apiextensionsv1.AddToScheme))
}

// scene is a StatefulSet whose pod follows, and two nodes. The test plays scheduler, kubelets and agents.
type scene struct {
	set        *appsv1.StatefulSet
	home, away *corev1.Node
	ip         string
}

// start runs the Lender as the leader does.
func start(t *testing.T) {
	t.Helper()
	startBy(t, clock.RealClock{})
}

func startBy(t *testing.T, at clock.PassiveClock) {
	t.Helper()
	mgr, lender := newLender(t, at)
	if err := lender.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	env.Start(t, mgr)
}

// newLender returns a Lender, and the manager that runs what it needs.
func newLender(t *testing.T, at clock.PassiveClock) (manager.Manager, *controller.Lender) {
	t.Helper()
	needs, namespaces := []cluster.Needs{controller.Needs(), workloads.Needs("limpet-system")}, []string{"limpet-system"}
	mgr := env.NewManager(t, cluster.CacheOptions(needs...))
	if err := cluster.AddIndexes(t.Context(), mgr.GetFieldIndexer(), needs...); err != nil {
		t.Fatal(err)
	}
	served, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		t.Fatal(err)
	}
	reader := &workloads.Reader{Registry: workloads.NewRegistry(), Cached: mgr.GetClient(), Live: mgr.GetAPIReader(), Scales: mgr.GetClient(), Namespaces: namespaces}
	watcher := &workloads.Watcher{
		Registry: reader.Registry, Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Discovery: served, Namespaces: namespaces,
		Events: mgr.GetEventRecorder("limpet-controller"), Clock: testenv.HastyClock{}, Elected: mgr.Elected(),
	}
	if err := watcher.SetupWithManager(mgr); err != nil {
		t.Fatal(err)
	}
	cached = mgr.GetClient()
	return mgr, &controller.Lender{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Clock: at, Events: mgr.GetEventRecorder("limpet-controller"), Workloads: reader, Missing: time.Millisecond,
	}
}

var (
	networks int           // the pod networks of the scenes differ
	cached   client.Reader // what the Lender that was started last knows
)

func newScene(t *testing.T) *scene {
	t.Helper()
	networks++
	node := func(n int) *corev1.Node {
		node := testenv.ANode(env.Name("node")).WithRoom(10, 4)
		node.Spec.PodCIDR = fmt.Sprintf("10.%d.%d.0/24", networks, n)
		node.Spec.PodCIDRs = []string{node.Spec.PodCIDR}
		env.Create(t, node.Node)
		return node.Node
	}
	s := &scene{home: node(1), away: node(2), ip: fmt.Sprintf("10.%d.1.5", networks)}
	set := testenv.AStatefulSet("web", 1).In(env.Namespace(t))
	env.Create(t, set.StatefulSet)
	env.Known(t, cached, &corev1.NodeList{}, &appsv1.StatefulSetList{}) // else nothing is believed, and no pod returns
	s.set = set.StatefulSet
	return s
}

// waiting makes the pod as the webhook does, behind the gate, once the Lender knows all else: it opens a gate once.
func (s *scene) waiting(t *testing.T) *corev1.Pod {
	t.Helper()
	env.Known(t, cached, &corev1.NodeList{}, &appsv1beta1.PersistentPodStateList{}, &limpetv1alpha1.IPReservationList{}, &limpetv1alpha1.NodeIPPoolList{}, &limpetv1alpha1.BorrowedAddressList{})
	pod := testenv.APod("web-0").In(s.set.Namespace).OwnedBy(s.set).With(reservation.ModeAnnotation, "follow").Gated(loan.Gate)
	if err := env.Client.Create(t.Context(), pod.Pod); err != nil {
		t.Fatal(err)
	}
	env.RemoveAtEnd(t, pod.Pod)
	return pod.Pod
}

// shown makes the IPReservation that the agent of a node shows of the pod that ended.
func (s *scene) shown(t *testing.T, node *corev1.Node) *limpetv1alpha1.IPReservation {
	t.Helper()
	return s.shownOn(t, node, reservation.FollowNetwork)
}

func (s *scene) shownOn(t *testing.T, node *corev1.Node, network string) *limpetv1alpha1.IPReservation {
	t.Helper()
	pod := testenv.APod("web-0").In(s.set.Namespace).On(node.Name).At(s.ip)
	r := testenv.AReservation(pod.Pod, time.Now())
	until := metav1.NewTime(time.Now().Add(reservation.Forever))
	r.Labels = map[string]string{limpetv1alpha1.LabelNode: node.Name}
	r.Status.Network, r.Status.Until, r.Status.RetainMinutes = network, &until, int32(reservation.Forever.Minutes())
	env.Create(t, r)
	return r
}

// loan returns the loan of the pod; nil for none.
func (s *scene) loan(t *testing.T) *limpetv1alpha1.BorrowedAddress {
	t.Helper()
	var all limpetv1alpha1.BorrowedAddressList
	if err := env.Client.List(t.Context(), &all, client.InNamespace(s.set.Namespace)); err != nil {
		t.Fatal(err)
	}
	if len(all.Items) == 0 {
		return nil
	}
	return &all.Items[0]
}

// becomes waits until the loan is as wanted: phase and borrower.
func (s *scene) becomes(t *testing.T, phase loan.Phase, borrower string) *limpetv1alpha1.BorrowedAddress {
	t.Helper()
	var b *limpetv1alpha1.BorrowedAddress
	testenv.Eventually(t, func() error {
		if b = s.loan(t); b == nil || loan.Phase(b.Status.Phase) != phase || b.Status.Borrower != borrower {
			return fmt.Errorf("the loan is %+v, want %s and borrower %q", b, phase, borrower)
		}
		return nil
	})
	return b
}

// answers writes what an agent answers.
func (s *scene) answers(t *testing.T, edit func(*limpetv1alpha1.BorrowedAddressStatus)) {
	t.Helper()
	b := s.loan(t)
	env.Change(t, b, func() { edit(&b.Status) })
}

func to(phase loan.Phase) func(*limpetv1alpha1.BorrowedAddressStatus) {
	return func(s *limpetv1alpha1.BorrowedAddressStatus) { s.Phase = limpetv1alpha1.LoanPhase(phase) }
}

// opened waits until the gate is open, and returns the node that the pod names as the one with its address.
func opened(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	testenv.Eventually(t, func() error {
		env.Read(t, client.ObjectKeyFromObject(pod), pod)
		if len(pod.Spec.SchedulingGates) > 0 {
			return fmt.Errorf("gates are %v", pod.Spec.SchedulingGates)
		}
		return nil
	})
	return pod.Annotations[reservation.HomeAnnotation]
}

// bind does what the scheduler does.
func bind(t *testing.T, pod *corev1.Pod, node *corev1.Node) {
	t.Helper()
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace}, Target: corev1.ObjectReference{Kind: "Node", Name: node.Name}}
	if err := env.Client.SubResource("binding").Create(t.Context(), pod, binding); err != nil {
		t.Fatal(err)
	}
}

// lentOut is a scene whose home is drained and has lent the address of the pod, which may be scheduled.
func lentOut(t *testing.T) (*scene, *corev1.Pod) {
	t.Helper()
	s := newScene(t)
	s.shown(t, s.home)
	env.Cordon(t, s.home)
	pod := s.waiting(t)
	s.becomes(t, loan.Asked, "")
	s.answers(t, to(loan.Lent))
	opened(t, pod)
	return s, pod
}

// TestAPodWithoutAnAddressDoesNotWait is the first life of a pod.
func TestAPodWithoutAnAddressDoesNotWait(t *testing.T) {
	start(t)
	s := newScene(t)
	if home := opened(t, s.waiting(t)); home != "" || s.loan(t) != nil {
		t.Errorf("home is %q, loan %v", home, s.loan(t))
	}
}

// TestHomeTakesThePod needs no loan.
func TestHomeTakesThePod(t *testing.T) {
	start(t)
	s := newScene(t)
	s.shown(t, s.home)
	if home := opened(t, s.waiting(t)); home != s.home.Name || s.loan(t) != nil {
		t.Errorf("home is %q, loan %v", home, s.loan(t))
	}
}

// TestTheAddressGoesAlong drains home, and lets the pod come home afterwards.
func TestTheAddressGoesAlong(t *testing.T) {
	start(t)
	s := newScene(t)
	s.shown(t, s.home)
	env.Cordon(t, s.home)
	pod := s.waiting(t)
	b := s.becomes(t, loan.Asked, "")
	if b.Spec.IPs != s.ip || b.Status.Home != s.home.Name || b.Name != "web-0.eth0.limpet" {
		t.Fatalf("asked for %+v", b)
	}
	env.Told(t, pod, controller.ReasonLent, s.ip)
	if env.Read(t, client.ObjectKeyFromObject(pod), pod); len(pod.Spec.SchedulingGates) == 0 {
		t.Fatal("the gate is open before home has lent")
	}
	s.answers(t, to(loan.Lent))
	if home := opened(t, pod); home != s.home.Name {
		t.Errorf("the pod names %q", home)
	}
	bind(t, pod, s.away)
	s.becomes(t, loan.Lent, s.away.Name)

	env.Remove(t, pod)
	env.Change(t, s.home, func() { s.home.Spec.Unschedulable = false })
	pod = s.waiting(t)
	s.becomes(t, loan.Ending, s.away.Name)
	s.answers(t, func(st *limpetv1alpha1.BorrowedAddressStatus) { st.Borrower, st.Epoch = "", st.Epoch+1 })
	s.answers(t, to(loan.Ended))
	b = s.loan(t)
	env.Change(t, b, func() { b.Finalizers = nil })
	env.Remove(t, b) // as home does, once it has the address
	if home := opened(t, pod); home != s.home.Name {
		t.Errorf("the pod names %q", home)
	}
}

// TestADeadHomeLends only once a person says that home is dead.
func TestADeadHomeLends(t *testing.T) {
	start(t)
	s := newScene(t)
	s.shown(t, s.home)
	env.Cordon(t, s.home)
	pod := s.waiting(t)
	s.becomes(t, loan.Asked, "")
	env.Told(t, pod, controller.ReasonWaiting, corev1.TaintNodeOutOfService)
	env.Change(t, s.home, func() {
		s.home.Spec.Taints = append(s.home.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute})
	})
	s.becomes(t, loan.Lent, "")
	opened(t, pod)
}

// TestALostLoanSaysWhatToDo has a loan that home put back, as after its state was rolled back, and a pod behind its gate. Home is
// well: the event says what a person must say, and when that is said, the address is home.
func TestALostLoanSaysWhatToDo(t *testing.T) {
	start(t)
	s := newScene(t)
	s.shown(t, s.home)
	lost := &limpetv1alpha1.BorrowedAddress{
		Spec:   limpetv1alpha1.BorrowedAddressSpec{Pod: "web-0", Interface: "eth0", Network: reservation.FollowNetwork, IPs: s.ip},
		Status: limpetv1alpha1.BorrowedAddressStatus{Home: s.home.Name, Borrower: loan.Unknown, Phase: limpetv1alpha1.LoanPhase(loan.Lent), Epoch: 7},
	}
	lost.Namespace, lost.Name = s.set.Namespace, lost.Spec.ObjectName()
	env.Create(t, lost)
	pod := s.waiting(t)
	s.becomes(t, loan.Ending, loan.Unknown)
	said := `{"status":{"borrower":null,"epoch":8}}`
	env.Told(t, pod, controller.ReasonWaiting, "patch borrowedaddress "+lost.Name+" --type=merge -p '"+said+"'")
	env.Patch(t, lost, said)
	s.becomes(t, loan.Ending, "")
	s.answers(t, to(loan.Ended))
	b := s.loan(t)
	env.Change(t, b, func() { b.Finalizers = nil })
	env.Remove(t, b) // as home does, once it has the address
	opened(t, pod)
}

// TestAPodThatWaitsOnItsNodeTellsWhy came past the gate, as while no webhook answered.
func TestAPodThatWaitsOnItsNodeTellsWhy(t *testing.T) {
	start(t)
	s := newScene(t)
	s.shown(t, s.home)
	pod := testenv.APod("web-0").In(s.set.Namespace).OwnedBy(s.set).With(reservation.ModeAnnotation, "follow").On(s.away.Name)
	pod.Status.PodIPs = nil
	env.Create(t, pod.Pod)
	s.becomes(t, loan.Asked, "")
	env.Told(t, pod.Pod, controller.ReasonWaiting, s.home.Name)
}

// TestADeadBorrowerLosesTheAddress to the next one.
func TestADeadBorrowerLosesTheAddress(t *testing.T) {
	start(t)
	s, pod := lentOut(t)
	bind(t, pod, s.away)
	s.becomes(t, loan.Lent, s.away.Name)
	env.Remove(t, pod)
	env.Remove(t, s.away)
	s.becomes(t, loan.Lent, "")
}

// TestAnOwnerThatDoesNotReturn gives its address up: at home, and where it is lent.
func TestAnOwnerThatDoesNotReturn(t *testing.T) {
	start(t)
	s := newScene(t)
	r := s.shown(t, s.home)
	env.Remove(t, s.set)
	testenv.Eventually(t, func() error {
		env.Read(t, client.ObjectKeyFromObject(r), r)
		if r.Labels[limpetv1alpha1.LabelRelease] != r.Status.Releases() {
			return fmt.Errorf("labels are %v", r.Labels)
		}
		return nil
	})

	s, pod := lentOut(t)
	env.Remove(t, pod)
	env.Remove(t, s.set)
	testenv.Eventually(t, func() error {
		if b := s.loan(t); b == nil || !b.Status.Free || loan.Phase(b.Status.Phase) != loan.Ending {
			return fmt.Errorf("the loan is %+v", b)
		}
		return nil
	})
}

// TestARangeThatChangesHands makes the new node of the range the home.
func TestARangeThatChangesHands(t *testing.T) {
	start(t)
	s, pod := lentOut(t)
	env.Remove(t, s.home)
	next := testenv.ANode(env.Name("node")).WithRoom(10, 4)
	next.Spec.PodCIDR, next.Spec.PodCIDRs = s.home.Spec.PodCIDR, s.home.Spec.PodCIDRs
	env.Create(t, next.Node)
	bind(t, pod, s.away)
	testenv.Eventually(t, func() error {
		b := s.loan(t)
		if b == nil || b.Status.Home != next.Name {
			return fmt.Errorf("the loan is %+v", b)
		}
		return nil
	})
}

// TestTwoRangesOfANodeThatIsGone go to two new nodes. Neither is a home to which the pod could go. It is a guest of the first.
func TestTwoRangesOfANodeThatIsGone(t *testing.T) {
	start(t)
	s := newScene(t)
	second := fmt.Sprintf("fd00:%d:1::/64", networks)
	s.ip += fmt.Sprintf(",fd00:%d:1::5", networks)
	s.shown(t, s.home)
	env.Cordon(t, s.home)
	pod := s.waiting(t)
	s.becomes(t, loan.Asked, "")
	s.answers(t, to(loan.Lent))
	opened(t, pod)
	env.Remove(t, s.home)
	next := func(cidr string) *corev1.Node {
		n := testenv.ANode(env.Name("node")).WithRoom(10, 4)
		n.Spec.PodCIDR, n.Spec.PodCIDRs = cidr, []string{cidr}
		env.Create(t, n.Node)
		return n.Node
	}
	next(second)
	first := next(s.home.Spec.PodCIDR)
	bind(t, pod, first)
	testenv.Eventually(t, func() error {
		if b := s.becomes(t, loan.Lent, first.Name); b.Status.Home != first.Name {
			return fmt.Errorf("the loan is %+v, want home %s", b.Status, first.Name)
		}
		return nil
	})
	env.Remove(t, pod)
	pod = s.waiting(t)
	opened(t, pod)
	env.Remove(t, pod)
	env.Remove(t, s.set)
	s.becomes(t, loan.Ending, first.Name)
	s.answers(t, func(st *limpetv1alpha1.BorrowedAddressStatus) { st.Borrower, st.Epoch = "", st.Epoch+1 })
	s.answers(t, to(loan.Ended))
	testenv.Eventually(t, func() error {
		if b := s.loan(t); b != nil {
			return fmt.Errorf("the loan is %+v", b)
		}
		return nil
	})
}

// TestALoanOfADeletedNamespaceEnds once no pod has the address: until then the finalizer keeps it. One without gets it.
func TestALoanOfADeletedNamespaceEnds(t *testing.T) {
	start(t)
	s, pod := lentOut(t)
	b := s.loan(t)
	env.Change(t, b, func() { b.Finalizers = nil })
	bind(t, pod, s.away)
	s.becomes(t, loan.Lent, s.away.Name)
	testenv.Eventually(t, func() error {
		if b = s.loan(t); !slices.Contains(b.Finalizers, loan.Finalizer) {
			return fmt.Errorf("finalizers are %v", b.Finalizers)
		}
		return nil
	})
	if err := env.Client.DeleteAllOf(t.Context(), b, client.InNamespace(b.Namespace)); err != nil { // as the controller of namespaces does
		t.Fatal(err)
	}
	env.Remove(t, pod)
	if b = s.becomes(t, loan.Ending, s.away.Name); !b.Status.Free {
		t.Errorf("the loan is %+v", b.Status)
	}
	s.answers(t, func(st *limpetv1alpha1.BorrowedAddressStatus) { st.Borrower, st.Epoch = "", st.Epoch+1 })
	env.Remove(t, s.home) // it never answers
	testenv.Eventually(t, func() error {
		if b := s.loan(t); b != nil {
			return fmt.Errorf("the loan is %+v", b)
		}
		return nil
	})
}

// TestBelowFlannelBothNodesHaveOneBackend binds the pod to a node that flannel reaches in another way: the pod waits there for no
// address. The node borrows once both have the same backend.
func TestBelowFlannelBothNodesHaveOneBackend(t *testing.T) {
	start(t)
	s := newScene(t)
	env.Change(t, s.home, func() { s.home.Annotations = loan.FlannelAnnotations("host-gw") })
	s.shownOn(t, s.home, "cbr0")
	env.Cordon(t, s.home)
	pod := s.waiting(t)
	s.becomes(t, loan.Asked, "")
	s.answers(t, to(loan.Lent))
	env.Change(t, s.away, func() { s.away.Annotations = loan.FlannelAnnotations("vxlan") })
	if home := opened(t, pod); home != s.home.Name {
		t.Errorf("home is %q", home)
	}
	bind(t, pod, s.away)
	testenv.Eventually(t, func() error {
		if env.Read(t, client.ObjectKeyFromObject(pod), pod); pod.Annotations[reservation.HomeAnnotation] != "" {
			return fmt.Errorf("the pod has %v", pod.Annotations)
		}
		return nil
	})
	s.becomes(t, loan.Lent, "")
	env.Change(t, s.away, func() { s.away.Annotations = loan.FlannelAnnotations("host-gw") })
	if b := s.becomes(t, loan.Lent, s.away.Name); b.Spec.Network != "cbr0" {
		t.Errorf("the loan is of the network %s", b.Spec.Network)
	}
}

// TestALoanIsCompared lets a write that was decided from an earlier loan fail.
func TestALoanIsCompared(t *testing.T) {
	start(t)
	s := newScene(t)
	s.shown(t, s.home)
	env.Cordon(t, s.home)
	s.waiting(t)
	old := s.becomes(t, loan.Asked, "")
	s.answers(t, to(loan.Lent))
	old.Status.Phase = "Ended"
	if err := env.Client.Update(t.Context(), old); !apierrors.IsConflict(err) {
		t.Errorf("a late write: %v", err)
	}
	if !strings.HasPrefix(s.loan(t).Status.Home, "node") {
		t.Error("no home")
	}
}

// TestALoanOfAForeignHomeIsRemoved is what a stolen token of a node could put: a loan of an address that another node has.
func TestALoanOfAForeignHomeIsRemoved(t *testing.T) {
	env.Late(t, "nodes", time.Second)
	start(t)
	s := newScene(t)
	forge := func(home *corev1.Node) {
		forged := &limpetv1alpha1.BorrowedAddress{
			Spec: limpetv1alpha1.BorrowedAddressSpec{Pod: "web-0", Interface: "eth0", Network: "net", IPs: s.ip},
			Status: limpetv1alpha1.BorrowedAddressStatus{
				Home: home.Name, Borrower: loan.Unknown, Phase: limpetv1alpha1.LoanPhase(loan.Lent), Epoch: 7,
			},
		}
		forged.Namespace, forged.Name = s.set.Namespace, forged.Spec.ObjectName()
		env.Create(t, forged)
		testenv.Eventually(t, func() error {
			if b := s.loan(t); b != nil {
				return fmt.Errorf("the loan is %+v", b)
			}
			return nil
		})
	}
	forge(s.away)
	unknown := testenv.ANode(env.Name("node")) // the cache shows it after its loan
	unknown.Spec.PodCIDR = fmt.Sprintf("10.%d.3.0/24", networks)
	unknown.Spec.PodCIDRs = []string{unknown.Spec.PodCIDR}
	env.Create(t, unknown.Node)
	forge(unknown.Node)
}
