package reconcile_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/loan"
	controller "github.com/limpet-io/limpet/internal/loan/reconcile"
	"github.com/limpet-io/limpet/internal/testenv"
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

// TestALoanThatIsGone is in the cache alone when its home is taken for dead, and a pod waits for it at home.
func TestALoanThatIsGone(t *testing.T) {
	at := clocktesting.NewFakePassiveClock(time.Now())
	mgr, lender := newLender(t, at)
	env.Start(t, mgr)
	s := newScene(t)
	s.shown(t, s.home)
	b := &limpetv1alpha1.BorrowedAddress{
		Spec:   limpetv1alpha1.BorrowedAddressSpec{Pod: "web-0", Interface: "eth0", Network: reservation.FollowNetwork, IPs: s.ip},
		Status: limpetv1alpha1.BorrowedAddressStatus{Home: s.home.Name, Phase: limpetv1alpha1.LoanPhase(loan.Asked), Epoch: 7},
	}
	b.Namespace, b.Name = s.set.Namespace, b.Spec.ObjectName()
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
