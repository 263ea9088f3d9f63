package reconcile_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/loan"
	controller "github.com/limpet-io/limpet/internal/loan/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// before does something before each live read of a loan.
type before struct {
	client.Reader
	do func()
}

func (b before) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, isLoan := o.(*limpetv1alpha1.BorrowedAddress); isLoan {
		b.do()
	}
	return b.Reader.Get(ctx, key, o, options...)
}

// pages reads one object at a time where the caller bounds a page, and counts other lists.
type pages struct {
	client.Reader
	bounded, whole int
}

func (p *pages) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if (&client.ListOptions{}).ApplyOptions(options).Limit == 0 {
		p.whole++
		return p.Reader.List(ctx, list, options...)
	}
	p.bounded++
	return p.Reader.List(ctx, list, append(options, client.Limit(1))...)
}

// TestADeathIsReadByPages concludes from all nodes that a home is gone, and that no other node has its range.
func TestADeathIsReadByPages(t *testing.T) {
	mgr, lender := newLender(t, clock.RealClock{})
	env.Start(t, mgr)
	newScene(t)
	s := newScene(t)
	env.Create(t, s.asked())
	env.Remove(t, s.home)
	pod := s.waiting(t)
	env.Known(t, cached, &corev1.PodList{})
	p := &pages{Reader: lender.Live}
	lender.Live = p
	if _, err := lender.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}); err != nil || p.bounded < 2 || p.whole > 0 {
		t.Errorf("%v after %d pages and %d whole lists", err, p.bounded, p.whole)
	}
	s.becomes(t, loan.Lent, "")
}

// asked is the loan of an address for which home is asked.
func (s *scene) asked() *limpetv1alpha1.BorrowedAddress {
	b := &limpetv1alpha1.BorrowedAddress{
		Spec:   limpetv1alpha1.BorrowedAddressSpec{Pod: "web-0", Interface: "eth0", Network: reservation.FollowNetwork, IPs: s.ip},
		Status: limpetv1alpha1.BorrowedAddressStatus{Home: s.home.Name, Phase: limpetv1alpha1.LoanPhase(loan.Asked), Epoch: 7},
	}
	b.Namespace, b.Name = s.set.Namespace, b.Spec.ObjectName()
	return b
}

// TestALoanThatIsGone is in the cache alone when its home is taken for dead, and a pod waits for it at home.
func TestALoanThatIsGone(t *testing.T) {
	at := clocktesting.NewFakePassiveClock(time.Now())
	mgr, lender := newLender(t, at)
	env.Start(t, mgr)
	s := newScene(t)
	s.shown(t, s.home)
	b := s.asked()
	env.Create(t, b)
	env.Change(t, s.home, func() {
		s.home.Spec.Taints = append(s.home.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute})
	})
	pod := testenv.APod("web-0").In(s.set.Namespace).OwnedBy(s.set).With(reservation.ModeAnnotation, "follow").On(s.home.Name)
	pod.Status.PodIPs = nil
	env.Create(t, pod.Pod)
	env.Known(t, cached, &corev1.NodeList{}, &corev1.PodList{}, &limpetv1alpha1.IPReservationList{}, &limpetv1alpha1.BorrowedAddressList{})
	reads := 0
	lender.Live = before{lender.Live, func() {
		if reads++; reads == 1 {
			at.SetTime(at.Now().Add(time.Minute)) // the pod has waited by now
			env.Remove(t, b)
		}
	}}
	if _, err := lender.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod.Pod)}); err != nil || reads != 1 {
		t.Errorf("after %d reads: %v", reads, err)
	}
	env.Told(t, pod.Pod, controller.ReasonWaiting, s.home.Name)
}

// fast is a clock that passes twenty times as fast.
type fast struct {
	clock.RealClock
	begin time.Time
}

func (f fast) Now() time.Time { return f.begin.Add(20 * time.Since(f.begin)) }

// recorded makes the record of a pod that was on a node with some addresses.
func (s *scene) recorded(t *testing.T, node, ips string) *appsv1beta1.PersistentPodState {
	t.Helper()
	state := testenv.APersistentPodState("web").In(s.set.Namespace).Prefers(1, corev1.LabelHostname).Recorded("web-0", node, nil)
	status := state.Status
	env.Create(t, state.PersistentPodState)
	record := status.PodStates["web-0"]
	record.IPs = ips
	status.PodStates["web-0"] = record
	state.Status = status
	if err := env.Client.Status().Update(t.Context(), state.PersistentPodState); err != nil {
		t.Fatal(err)
	}
	return state.PersistentPodState
}

// TestANodeIsDeletedBeforeItHasLent lends what the record says. Two records of one address lend it once, and another one when the
// first owner is gone.
func TestANodeIsDeletedBeforeItHasLent(t *testing.T) {
	startBy(t, fast{begin: time.Now()})
	s := newScene(t)
	env.Remove(t, s.home)
	other := newScene(t)
	other.shown(t, other.home) // addresses follow in this cluster
	lends := func(of *scene, want bool) (*corev1.Pod, *appsv1beta1.PersistentPodState) {
		t.Helper()
		state := of.recorded(t, s.home.Name, s.ip)
		pod := of.waiting(t)
		if want {
			if b := of.becomes(t, loan.Lent, ""); b.Spec.IPs != s.ip || b.Status.Home != s.home.Name || b.Name != "web-0.eth0.limpet" {
				t.Errorf("lent %+v", b)
			}
		}
		if home := opened(t, pod); (home == s.home.Name) != want || !want && of.loan(t) != nil {
			t.Errorf("the pod names %q, and its loan is %+v", home, of.loan(t))
		}
		return pod, state
	}
	pod, state := lends(s, true)
	lends(newScene(t), false)
	env.Remove(t, pod)
	env.Remove(t, state)
	env.Remove(t, s.set)
	testenv.Eventually(t, func() error {
		if b := s.loan(t); b != nil {
			return fmt.Errorf("the loan is %+v", b)
		}
		return nil
	})
	lends(newScene(t), true)
}

// TestTheNetworkOfARecord deletes the node of the only pod that follows. Below flannel the pools tell the network. Of two segments
// the one counts that has the nearer ranges. If none is nearer, the pod waits, and the event says how it gets another address.
func TestTheNetworkOfARecord(t *testing.T) {
	startBy(t, fast{begin: time.Now()})
	s := newScene(t)
	env.Change(t, s.away, func() { s.away.Annotations = loan.FlannelAnnotations("host-gw") })
	pool := &limpetv1alpha1.NodeIPPool{Status: limpetv1alpha1.NodeIPPoolStatus{Node: s.away.Name, Network: "cbr0"}}
	pool.Name = limpetv1alpha1.ObjectName(s.away.Name, "cbr0")
	env.Create(t, pool)
	env.Remove(t, s.home)
	s.recorded(t, s.home.Name, s.ip)
	pod := s.waiting(t)
	if b := s.becomes(t, loan.Lent, ""); b.Spec.Network != "cbr0" {
		t.Errorf("lent %+v", b)
	}
	opened(t, pod)

	s = newScene(t)
	sharedPool(t, s.away, "lan", "192.168.1.1-192.168.1.9")
	sharedPool(t, newScene(t).home, "other-lan", "192.168.2.1-192.168.2.9")
	near := newScene(t)
	near.ip = "192.168.2.77"
	env.Remove(t, near.home)
	near.recorded(t, near.home.Name, near.ip)
	near.waiting(t)
	if b := near.becomes(t, loan.Lent, ""); b.Spec.Network != "other-lan" {
		t.Errorf("lent %+v", b)
	}
	env.Remove(t, s.home)
	s.recorded(t, s.home.Name, s.ip)
	pod = s.waiting(t)
	remedy := `{"spec":{"schedulingGates":[{"$patch":"delete","name":"limpet.dev/loan"}]}}`
	env.Told(t, pod, controller.ReasonWaiting, "networks lan, other-lan; remedy")
	env.Told(t, pod, controller.ReasonWaiting, "patch pod web-0 -p '"+remedy+"'")
	if err := env.Client.Patch(t.Context(), pod, client.RawPatch(types.StrategicMergePatchType, []byte(remedy))); err != nil {
		t.Fatal(err)
	}
	if home := opened(t, pod); home != "" || s.loan(t) != nil {
		t.Errorf("home is %q, loan %v", home, s.loan(t))
	}
}
