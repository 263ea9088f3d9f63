package reconcile_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/loan"
	"github.com/limpet-io/limpet/internal/platform/cluster"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	limpetv1alpha1 "github.com/limpet-io/limpet/pkg/api/limpet/v1alpha1"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// releases waits until an address is given up. The annotation wakes the Lender, which would look again after ten seconds.
func releases(t *testing.T, r *limpetv1alpha1.IPReservation) {
	t.Helper()
	testenv.Eventually(t, func() error {
		env.Annotate(t, r, "example.com/looked-at", time.Now().String())
		if env.Read(t, client.ObjectKeyFromObject(r), r); r.Labels[limpetv1alpha1.LabelRelease] != r.Status.Releases() {
			return fmt.Errorf("labels are %v", r.Labels)
		}
		return nil
	})
}

// TestWhoReturns scales a workload of another kind than StatefulSet in, and deletes it: each pod that it wants no more, and each
// owner of a controller that is gone, gives its address up, and no other one.
func TestWhoReturns(t *testing.T) {
	env.ServeKinds(t)
	start(t)
	for name, kind := range map[string]schema.GroupVersionKind{"Advanced StatefulSet": testenv.KruiseSets, "a kind that a user named": testenv.GameServers} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			env.Remove(t, s.set)
			size := func(n int64) map[string]any { return map[string]any{testenv.ReplicasField(kind): n} }
			set := env.OfKind(t, kind, s.set.Namespace, "web", size(2))
			resized := func(n int64) {
				env.Change(t, set, func() { set.Object["spec"] = size(n) })
			}
			first := s.keeps(t, "web-0", 5)
			second := s.keeps(t, "web-1", 6)
			of := s.keeps(t, kind.Group+"/"+kind.Kind+"/web/db", 7)
			bare := s.keeps(t, "web", 8)
			releases(t, bare)
			env.Create(t, testenv.APod("web-0").In(s.set.Namespace).Of(set, kind).With(reservation.ModeAnnotation, "follow").Pod)
			resized(1)
			releases(t, second)
			for _, r := range []*limpetv1alpha1.IPReservation{first, of} {
				if env.Read(t, client.ObjectKeyFromObject(r), r); r.Labels[limpetv1alpha1.LabelRelease] != "" {
					t.Errorf("the address of %s is given up", r.Status.Pod)
				}
			}
			env.Remove(t, &unstructured.Unstructured{Object: set.Object})
			releases(t, of)
		})
	}
}

// TestAJobThatEndsGivesItsAddressBack deletes a CronJob, and ends a Job that stays with its pod: their owners do not return. Those
// of others do.
func TestAJobThatEndsGivesItsAddressBack(t *testing.T) {
	start(t)
	s := newScene(t)
	template := corev1.PodTemplateSpec{Spec: testenv.APod("x").Spec}
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	jobs := batchv1.JobSpec{Template: template}
	job := func(name string) *batchv1.Job {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.set.Namespace, Name: name}, Spec: jobs}
		env.Create(t, j)
		return j
	}
	cron := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.set.Namespace, Name: "nightly"}}
	cron.Spec = batchv1.CronJobSpec{Schedule: "@daily", JobTemplate: batchv1.JobTemplateSpec{Spec: jobs}}
	env.Create(t, cron)
	ended := job("ended")
	job("goes-on")
	pod := testenv.APod("ended-x").In(s.set.Namespace).Of(ended, batchv1.SchemeGroupVersion.WithKind("Job")).With(reservation.ModeAnnotation, "follow").With(reservation.OwnerAnnotation, "batch/Job/ended/db")
	env.Create(t, pod.Pod)
	nightly, once := s.keeps(t, "batch/CronJob/nightly/db", 5), s.keeps(t, "batch/Job/ended/db", 6)
	others := []*limpetv1alpha1.IPReservation{nightly, once, s.keeps(t, "batch/Job/goes-on/db", 7)}
	isKept := func() {
		t.Helper()
		for _, r := range others {
			if env.Read(t, client.ObjectKeyFromObject(r), r); r.Labels[limpetv1alpha1.LabelRelease] != "" {
				t.Errorf("the address of %s is given up", r.Status.Pod)
			}
		}
	}
	releases(t, s.keeps(t, "batch/CronJob/gone/db", 8))
	isKept()
	now := metav1.Now()
	ended.Status.StartTime = &now
	for _, c := range []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed} {
		ended.Status.Conditions = append(ended.Status.Conditions, batchv1.JobCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	pod.Status.Phase = corev1.PodFailed
	if err := errors.Join(env.Client.Status().Update(t.Context(), ended), env.Client.Status().Update(t.Context(), pod.Pod)); err != nil {
		t.Fatal(err)
	}
	releases(t, once)
	others = slices.Delete(others, 1, 2)
	isKept()
	env.Remove(t, cron)
	releases(t, nightly)
	others = others[1:]
	isKept()
}

// TestARecordKeepsALoan ends the loan of a pod that is gone once its record is: the retention policy says when.
func TestARecordKeepsALoan(t *testing.T) {
	mgr, lender := newLender(t, clock.RealClock{})
	env.Start(t, mgr)
	s := newScene(t)
	s.keeps(t, "web-0", 5)
	b := s.asked()
	b.Status.Borrower, b.Status.Phase = s.away.Name, limpetv1alpha1.LoanPhase(loan.Lent)
	env.Create(t, b)
	state := s.recorded(t, s.home.Name, s.ip)
	env.Remove(t, s.set)
	phaseIs := func(want loan.Phase) {
		t.Helper()
		env.Known(t, cached, &appsv1beta1.PersistentPodStateList{}, &limpetv1alpha1.IPReservationList{}, &limpetv1alpha1.BorrowedAddressList{})
		if _, err := lender.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: b.Namespace, Name: "web-0"}}); err != nil {
			t.Fatal(err)
		}
		if phase := loan.Phase(s.loan(t).Status.Phase); phase != want {
			t.Errorf("the loan is %s, want %s", phase, want)
		}
	}
	phaseIs(loan.Lent) // the policy WhenDeleted of the record keeps it, though no StatefulSet is there
	env.ChangeStatus(t, state, func() { state.Status.PodStates = nil })
	phaseIs(loan.Ending)
}

// TestWhatIsGivenUp ends the loan of an address that a user gives up, and not one of another network.
func TestWhatIsGivenUp(t *testing.T) {
	mgr, lender := newLender(t, clock.RealClock{})
	env.Start(t, mgr)
	s := newScene(t)
	r := s.keeps(t, "web-0", 5)
	b := &limpetv1alpha1.BorrowedAddress{
		Spec:   limpetv1alpha1.BorrowedAddressSpec{Pod: "web-0", Interface: "eth0", Network: reservation.FollowNetwork, IPs: s.ip},
		Status: limpetv1alpha1.BorrowedAddressStatus{Home: s.home.Name, Borrower: s.away.Name, Phase: limpetv1alpha1.LoanPhase(loan.Lent), Epoch: 7},
	}
	b.Namespace, b.Name = s.set.Namespace, b.Spec.ObjectName()
	env.Create(t, b)
	other := s.keeps(t, "web-0", 6)
	env.Change(t, other, func() { other.Status.Network, other.Status.RetainMinutes = "other", 10 })
	for _, tc := range []struct {
		up   *limpetv1alpha1.IPReservation
		want loan.Phase
	}{{other, loan.Lent}, {r, loan.Ending}} {
		if err := cluster.GiveUp(t.Context(), env.Client, tc.up); err != nil {
			t.Fatal(err)
		}
		env.Known(t, cached, &corev1.NodeList{}, &limpetv1alpha1.IPReservationList{}, &limpetv1alpha1.BorrowedAddressList{})
		if _, err := lender.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: b.Namespace, Name: "web-0"}}); err != nil {
			t.Fatal(err)
		}
		if phase := loan.Phase(s.loan(t).Status.Phase); phase != tc.want {
			t.Errorf("%s of network %s is given up: the loan is %s, want %s", tc.up.Status.IPs, tc.up.Status.Network, phase, tc.want)
		}
	}
}

// keeps makes the IPReservation of an owner without a pod, of the node at home.
func (s *scene) keeps(t *testing.T, owner string, host int) *limpetv1alpha1.IPReservation {
	t.Helper()
	pod := testenv.APod("x").In(s.set.Namespace).On(s.home.Name).At(fmt.Sprintf("10.%d.1.%d", networks, host))
	r := testenv.AReservation(pod.Pod, time.Now())
	until := metav1.NewTime(time.Now().Add(reservation.Forever))
	r.Name, r.Labels = fmt.Sprint("kept-", host), map[string]string{limpetv1alpha1.LabelNode: s.home.Name}
	r.Status.Pod, r.Status.Network, r.Status.Until, r.Status.RetainMinutes = owner, reservation.FollowNetwork, &until, int32(reservation.Forever.Minutes())
	env.Create(t, r)
	return r
}
