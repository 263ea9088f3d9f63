package reconcile_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/loan"
	controller "github.com/limpet-io/limpet/internal/loan/reconcile"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
)

// refuses refuses new loans, as the API server does in a namespace that is deleted.
type refuses struct{ client.Client }

func (r refuses) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	if _, isLoan := o.(*limpetv1alpha1.BorrowedAddress); isLoan {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "borrowedaddresses"}, o.GetName(), nil)
	}
	return r.Client.Create(ctx, o, options...)
}

// counting counts the reads of single objects of a kind.
type counting[T client.Object] struct {
	client.Reader
	reads *int
}

func (c counting[T]) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if _, is := o.(T); is {
		*c.reads++
	}
	return c.Reader.Get(ctx, key, o, options...)
}

// TestARecordOfAnOwnerThatCannotLend lets another owner lend the address. A pod whose node may show its addresses in a moment costs
// no read of that node.
func TestARecordOfAnOwnerThatCannotLend(t *testing.T) {
	at := clocktesting.NewFakePassiveClock(time.Now())
	mgr, lender := newLender(t, at)
	env.Start(t, mgr)
	follows := newScene(t)
	follows.shown(t, follows.home)
	gone := newScene(t)
	env.Remove(t, gone.home)
	reads, sound := 0, lender.Client
	lender.Live = counting[*corev1.Node]{lender.Live, &reads}
	look := func(s *scene) error {
		env.Known(t, cached, &corev1.NodeList{}, &corev1.PodList{}, &appsv1beta1.PersistentPodStateList{}, &limpetv1alpha1.BorrowedAddressList{})
		_, err := lender.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: s.set.Namespace, Name: "web-0"}})
		return err
	}
	lends := func(s *scene) (*corev1.Pod, error) {
		s.recorded(t, gone.home.Name, gone.ip)
		pod := s.waiting(t)
		for range 3 {
			if err := look(s); err != nil || reads > 0 {
				t.Fatalf("%v after %d reads", err, reads)
			}
		}
		at.SetTime(at.Now().Add(11 * time.Second))
		defer func() { reads = 0 }()
		return pod, look(s)
	}
	lender.Client = refuses{sound}
	pod, err := lends(gone)
	if !apierrors.IsForbidden(err) {
		t.Fatalf("the loan: %v", err)
	}
	lender.Client = sound
	env.Remove(t, pod)
	if err := look(gone); err != nil {
		t.Fatal(err)
	}
	next := newScene(t)
	if _, err := lends(next); err != nil {
		t.Fatal(err)
	}
	if b := next.loan(t); b == nil || b.Spec.IPs != gone.ip {
		t.Errorf("the loan is %+v", b)
	}
}

// TestARecordInAnotherOrder has the addresses as the kubelet shows them, which begins with the family of the node.
func TestARecordInAnotherOrder(t *testing.T) {
	mgr, lender := newLender(t, clocktesting.NewFakePassiveClock(time.Now()))
	env.Start(t, mgr)
	s := newScene(t)
	v4, v6 := s.ip, fmt.Sprintf("fd00:%d:1::5", networks)
	s.recorded(t, s.home.Name, v6+","+v4)
	s.ip = v4 + "," + v6
	s.shown(t, s.home)
	s.ip = fmt.Sprintf("10.%d.2.7", networks)
	later := s.shown(t, s.away)
	env.Change(t, later, func() { later.Status.Until.Time = later.Status.Until.Add(time.Hour) })
	env.Cordon(t, s.home)
	pod := s.waiting(t)
	env.Known(t, cached, &corev1.PodList{})
	if _, err := lender.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}); err != nil {
		t.Fatal(err)
	}
	if b := s.loan(t); b == nil || b.Status.Home != s.home.Name || loan.Phase(b.Status.Phase) != loan.Asked {
		t.Errorf("the loan is %+v", b)
	}
}

// TestARecordOnASegmentWhoseRangeAnotherNodeHas lends nothing, neither by the record nor by a loan that has ended: home is gone, and
// that node may have given the address away.
func TestARecordOnASegmentWhoseRangeAnotherNodeHas(t *testing.T) {
	for _, ended := range []bool{false, true} {
		recordBeside(t, ended)
	}
}

func recordBeside(t *testing.T, ended bool) {
	t.Helper()
	at := clocktesting.NewFakePassiveClock(time.Now())
	mgr, lender := newLender(t, at)
	env.Start(t, mgr)
	s := newScene(t)
	s.ip = fmt.Sprintf("192.168.%d.5", networks)
	sharedPool(t, s.away, "lan", s.ip+"-"+s.ip)
	env.Remove(t, s.home)
	s.recorded(t, s.home.Name, s.ip)
	if ended {
		b := s.asked()
		b.Spec.Network, b.Status.Phase = "lan", limpetv1alpha1.LoanPhase(loan.Ended)
		b.Name = b.Spec.ObjectName()
		env.Create(t, b)
	}
	pod := s.waiting(t)
	env.Known(t, cached, &corev1.PodList{})
	for range 2 {
		if _, err := lender.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}); err != nil {
			t.Fatal(err)
		}
		at.SetTime(at.Now().Add(11 * time.Second))
	}
	env.Told(t, pod, controller.ReasonWaiting, s.away.Name+": neither lends it; remedy: let it take another one: kubectl -n "+pod.Namespace+" patch pod")
	if b := s.loan(t); b != nil && (!ended || loan.Phase(b.Status.Phase) != loan.Ended) {
		t.Errorf("the loan is %+v", b)
	}
}
