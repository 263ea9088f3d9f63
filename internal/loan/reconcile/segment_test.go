package reconcile_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/loan"
	controller "github.com/limpet-io/limpet/internal/loan/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// onSegment is a scene with an address that no pod CIDR has. Home says that its network is on a segment.
func onSegment(t *testing.T) *scene {
	t.Helper()
	s := newScene(t)
	s.ip = fmt.Sprintf("192.168.%d.5", networks)
	sharedPool(t, s.home, "lan", s.ip+"-"+s.ip)
	return s
}

// sharedPool is what the agent of a node shows of a network on a segment that nodes share.
func sharedPool(t *testing.T, node *corev1.Node, network, ranges string) *limpetv1alpha1.NodeIPPool {
	t.Helper()
	p := &limpetv1alpha1.NodeIPPool{Status: limpetv1alpha1.NodeIPPoolStatus{Node: node.Name, Network: network, SharedNetwork: true, Ranges: []string{ranges}}}
	p.Name = limpetv1alpha1.ObjectName(node.Name, network)
	env.Create(t, p)
	return p
}

// TestOnASegmentBothNodesHaveTheNetwork binds the pod to a node of another segment: the pod waits there for no address. The node
// borrows once it has the network.
func TestOnASegmentBothNodesHaveTheNetwork(t *testing.T) {
	start(t)
	s := onSegment(t)
	s.shownOn(t, s.home, "lan")
	env.Cordon(t, s.home)
	pod := s.waiting(t)
	s.becomes(t, loan.Asked, "")
	s.answers(t, to(loan.Lent))
	other := sharedPool(t, s.away, "another-lan", "192.168.9.1-192.168.9.9")
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
	env.Change(t, other, func() { other.Status.Network = "lan" })
	s.becomes(t, loan.Lent, s.away.Name)
}

// TestASegmentReadsNoNodeNetwork looks for whose an address is: of own mode alone the NodeNetwork has ranges.
func TestASegmentReadsNoNodeNetwork(t *testing.T) {
	mgr, lender := newLender(t, clock.RealClock{})
	env.Start(t, mgr)
	reads := 0
	lender.Live = counting[*limpetv1alpha1.NodeNetwork]{lender.Live, &reads}
	for network, want := range map[string]int{"lan": 0, reservation.FollowNetwork: 1} {
		s := onSegment(t)
		s.shownOn(t, s.home, network)
		s.waiting(t)
		env.Known(t, cached, &corev1.PodList{})
		reads = 0
		if _, err := lender.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: s.set.Namespace, Name: "web-0"}}); err != nil || reads != want {
			t.Errorf("in network %s: the NodeNetwork is read %d times, %v; want %d", network, reads, err, want)
		}
	}
}

// TestALoanOfAnAddressOfAnotherRangeIsRemoved is what a stolen token of a node could put on a segment, where no Node says whose an
// address is: the node that shows it does.
func TestALoanOfAnAddressOfAnotherRangeIsRemoved(t *testing.T) {
	start(t)
	s := onSegment(t)
	s.shownOn(t, s.home, "lan")
	sharedPool(t, s.away, "lan", s.ip+"-"+s.ip)
	forged := &limpetv1alpha1.BorrowedAddress{
		Spec:   limpetv1alpha1.BorrowedAddressSpec{Pod: "web-0", Interface: "eth0", Network: "lan", IPs: s.ip},
		Status: limpetv1alpha1.BorrowedAddressStatus{Home: s.away.Name, Borrower: loan.Unknown, Phase: limpetv1alpha1.LoanPhase(loan.Lent), Epoch: 7},
	}
	forged.Namespace, forged.Name = s.set.Namespace, forged.Spec.ObjectName()
	env.Create(t, forged)
	s.waiting(t)
	testenv.Eventually(t, func() error {
		if b := s.loan(t); b != nil {
			return fmt.Errorf("the loan is %+v", b)
		}
		return nil
	})
}

// TestAForgedReservationOnASegment is what a stolen token of a node could show: that the pod has an address there which is another
// node's. No loan is made of it, nor of one that two nodes have by mistake.
func TestAForgedReservationOnASegment(t *testing.T) {
	start(t)
	s := onSegment(t) // home owns the address, of which another pod may have been told
	sharedPool(t, s.away, "lan", s.ip+"-"+s.ip)
	s.shownOn(t, s.away, "lan")
	env.Cordon(t, s.away)
	pod := s.waiting(t)
	env.Told(t, pod, controller.ReasonWaiting, s.home.Name)
	if b := s.loan(t); b != nil {
		t.Errorf("the loan is %+v", b)
	}
}

// TestAPodCIDROnASegment is that of a node that came later, and has addresses of a range which the controller sees in no Node.
func TestAPodCIDROnASegment(t *testing.T) {
	start(t)
	s := onSegment(t)
	s.shownOn(t, s.home, "lan")
	sharedPool(t, s.away, "lan", "192.168.0.1-192.168.0.1")
	env.Cordon(t, s.home)
	pod := s.waiting(t)
	s.becomes(t, loan.Asked, "")
	late := testenv.ANode(env.Name("node")).WithRoom(10, 4)
	late.Spec.PodCIDR = s.ip + "/32"
	late.Spec.PodCIDRs = []string{late.Spec.PodCIDR}
	env.Create(t, late.Node)
	s.answers(t, to(loan.Lent))
	opened(t, pod)
	bind(t, pod, s.away)
	if b := s.becomes(t, loan.Lent, s.away.Name); b.Status.Home != s.home.Name {
		t.Errorf("the loan is %+v", b.Status)
	}
	env.Remove(t, pod)
	env.Remove(t, s.set)
	if b := s.becomes(t, loan.Ending, s.away.Name); b.Status.Home != s.home.Name {
		t.Errorf("without a pod, the loan is %+v", b.Status)
	}
}

// TestAPodCIDROnASegmentWithoutItsHome is that of a node that came after home was deleted.
func TestAPodCIDROnASegmentWithoutItsHome(t *testing.T) {
	start(t)
	s := onSegment(t)
	shown := s.shownOn(t, s.home, "lan")
	sharedPool(t, s.away, "lan", "192.168.0.1-192.168.0.1")
	env.Cordon(t, s.home)
	pod := s.waiting(t)
	s.becomes(t, loan.Asked, "")
	s.answers(t, to(loan.Lent))
	opened(t, pod)
	pool := &limpetv1alpha1.NodeIPPool{}
	pool.Name = limpetv1alpha1.ObjectName(s.home.Name, "lan")
	for _, o := range []client.Object{pool, shown, s.home} {
		env.Remove(t, o)
	}
	late := testenv.ANode(env.Name("node")).WithRoom(10, 4)
	late.Spec.PodCIDR = s.ip + "/32"
	late.Spec.PodCIDRs = []string{late.Spec.PodCIDR}
	env.Create(t, late.Node)
	env.Known(t, cached, &corev1.NodeList{}, &limpetv1alpha1.IPReservationList{}, &limpetv1alpha1.NodeIPPoolList{})
	bind(t, pod, s.away)
	if b := s.becomes(t, loan.Lent, s.away.Name); b.Status.Home != s.home.Name {
		t.Errorf("the loan is %+v", b.Status)
	}
}

// TestAPodCIDROfAnotherNodeOnASegment has one of two addresses of a pod. It says nothing of a segment: home is who shows them.
func TestAPodCIDROfAnotherNodeOnASegment(t *testing.T) {
	start(t)
	s := onSegment(t)
	late := testenv.ANode(env.Name("node")).WithRoom(10, 4)
	late.Spec.PodCIDR = s.ip + "/32"
	late.Spec.PodCIDRs = []string{late.Spec.PodCIDR}
	env.Create(t, late.Node)
	s.ip += fmt.Sprintf(",fd00:%d::5", networks)
	s.shownOn(t, s.home, "lan")
	env.Cordon(t, s.home)
	s.waiting(t)
	if b := s.becomes(t, loan.Asked, ""); b.Status.Home != s.home.Name {
		t.Errorf("the loan is %+v", b.Status)
	}
}

// TestAHomeThatShowsNoPoolYet was made again on a segment. The controller ends no loan that it has made.
func TestAHomeThatShowsNoPoolYet(t *testing.T) {
	at := clocktesting.NewFakePassiveClock(time.Now())
	mgr, lender := newLender(t, at)
	env.Start(t, mgr)
	s := newScene(t)
	s.ip = fmt.Sprintf("192.168.%d.5", networks)
	sharedPool(t, s.away, "lan", "192.168.0.1-192.168.0.1")
	b := s.asked()
	b.Spec.Network, b.Status.Phase = "lan", limpetv1alpha1.LoanPhase(loan.Lent)
	b.Name = b.Spec.ObjectName()
	env.Create(t, b)
	env.Remove(t, s.set)
	for range 3 {
		env.Known(t, cached, &corev1.NodeList{}, &appsv1.StatefulSetList{}, &limpetv1alpha1.NodeIPPoolList{}, &limpetv1alpha1.BorrowedAddressList{})
		if _, err := lender.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: b.Namespace, Name: "web-0"}}); err != nil {
			t.Fatal(err)
		}
		at.SetTime(at.Now().Add(time.Minute))
	}
	s.becomes(t, loan.Ending, "")
}
