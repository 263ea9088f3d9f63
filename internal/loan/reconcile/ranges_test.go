package reconcile_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/testenv"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// TestARangeOfTheNodeNetwork has its address at home, whatever another node shows, and takes it along when it changes hands.
func TestARangeOfTheNodeNetwork(t *testing.T) {
	env.Since(t, 31, "CEL functions for networks")
	env.AsControllerWithNetworks(t)
	start(t)
	s := newScene(t)
	s.ip = fmt.Sprintf("10.%d.9.5", networks)
	give := func(node string) *limpetv1alpha1.NodeNetwork {
		o := &limpetv1alpha1.NodeNetwork{ObjectMeta: metav1.ObjectMeta{Name: limpetv1alpha1.NodeNetworkName}}
		o.Spec.Ranges = []limpetv1alpha1.NodeRange{{Node: node, CIDR: fmt.Sprintf("10.%d.9.0/24", networks)}}
		env.Create(t, o)
		return o
	}
	settings := give(s.home.Name)
	s.shown(t, s.home)
	s.shown(t, s.away) // later
	env.Cordon(t, s.home)
	pod := s.waiting(t)
	if b := s.becomes(t, loan.Asked, ""); b.Status.Home != s.home.Name {
		t.Fatalf("the loan is %+v", b.Status)
	}
	s.answers(t, to(loan.Lent))
	opened(t, pod)
	bind(t, pod, s.away)
	s.becomes(t, loan.Lent, s.away.Name)
	next := testenv.ANode(env.Name("node")).WithRoom(10, 4)
	env.Create(t, next.Node)
	env.Remove(t, settings)
	give(next.Name)
	env.Change(t, s.home, func() { s.home.Spec.Unschedulable = false }) // nothing tells the Lender of the ranges
	testenv.Eventually(t, func() error {
		if b := s.loan(t); b == nil || b.Status.Home != next.Name {
			return fmt.Errorf("the loan is %+v", b)
		}
		return nil
	})
}

// TestAHolderLostItsRange asks the new node of the range, which may still have the address.
func TestAHolderLostItsRange(t *testing.T) {
	start(t)
	s := newScene(t)
	s.ip = fmt.Sprintf("10.%d.2.5", networks)
	s.shown(t, s.home)
	env.Cordon(t, s.home)
	s.waiting(t)
	testenv.Eventually(t, func() error {
		if b := s.loan(t); b == nil || b.Status.Home != s.away.Name || loan.Phase(b.Status.Phase) != loan.Asked {
			return fmt.Errorf("the loan is %+v", b)
		}
		return nil
	})
}

// TestAHolderWhoseRangeWentInParts was made again with another range, and two nodes have the addresses. No node can have both: the
// pod takes others.
func TestAHolderWhoseRangeWentInParts(t *testing.T) {
	start(t)
	s := newScene(t)
	second := testenv.ANode(env.Name("node")).WithRoom(10, 4)
	second.Spec.PodCIDR = fmt.Sprintf("fd00:%d:2::/64", networks)
	second.Spec.PodCIDRs = []string{second.Spec.PodCIDR}
	env.Create(t, second.Node)
	s.ip = fmt.Sprintf("10.%d.2.5,fd00:%d:2::5", networks, networks)
	s.shown(t, s.home)
	env.Cordon(t, s.home)
	if home := opened(t, s.waiting(t)); home != "" || s.loan(t) != nil {
		t.Errorf("home is %q, loan %v", home, s.loan(t))
	}
}

// TestALoanThatEndedWhileItsHomeGotAnotherRange is removed, though home shows the address of the pod that ran there before: no node
// puts the loan back. The pod goes on.
func TestALoanThatEndedWhileItsHomeGotAnotherRange(t *testing.T) {
	mgr, lender := newLender(t, clock.RealClock{})
	env.Start(t, mgr)
	s := newScene(t)
	s.ip = fmt.Sprintf("10.%d.9.5", networks) // of no node
	s.shown(t, s.home)
	b := s.asked()
	b.Status.Phase = limpetv1alpha1.LoanPhase(loan.Ended)
	env.Create(t, b)
	pod := s.waiting(t)
	for range 2 {
		env.Known(t, cached, &corev1.PodList{}, &limpetv1alpha1.BorrowedAddressList{})
		if _, err := lender.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}); err != nil {
			t.Fatal(err)
		}
	}
	env.Read(t, client.ObjectKeyFromObject(pod), pod)
	if b := s.loan(t); b != nil || len(pod.Spec.SchedulingGates) > 0 {
		t.Errorf("the loan is %+v, gates are %v", b, pod.Spec.SchedulingGates)
	}
}
