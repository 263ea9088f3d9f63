package pin_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controller "github.com/limpet-io/limpet/internal/controller/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/pkg/pin"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func (m *manager) adviser(c clock.PassiveClock) *controller.Adviser {
	return &controller.Adviser{
		Client: m.GetClient(), Workloads: m.reader, MaxReservation: time.Hour, Clock: c, Events: m.GetEventRecorder("limpet-controller"),
	}
}

// later is a clock by which no PersistentPodState is awaited any more.
func later() clock.PassiveClock { return clocktesting.NewFakePassiveClock(time.Now().Add(time.Hour)) }

// templated is a StatefulSet whose pods have an annotation.
func templated(ns, name, key, value string) testenv.StatefulSet {
	set := testenv.AStatefulSet(name, 1).In(ns)
	set.Spec.Template.Annotations = map[string]string{key: value}
	return set
}

// Each mistake stays visible after the workload was applied, also those from before the
// controller started.
func TestAnnotationsThatDoNothingAreTold(t *testing.T) {
	m := newManager(t)
	ns := env.Namespace(t)
	env.Node(t)
	const retain, auto = reservation.RetainAnnotation, appsv1beta1.AnnotationAutoGenerate
	like := templated(ns, "app", retain, "10")
	once := templated(ns, "job", retain, "10").Spec.Template
	once.Spec.RestartPolicy = corev1.RestartPolicyNever
	cases := []struct {
		workload client.Object
		word     string
	}{
		{templated(ns, "placeless", retain, "10").StatefulSet, "nothing brings the pod back"},
		{testenv.AStatefulSet("yes", 1).In(ns).With(auto, "yes").StatefulSet, `"yes" is not "true"`},
		{testenv.AStatefulSet("above", 1).In(ns).With(retain, "10").StatefulSet, "move it to spec.template"},
		{templated(ns, "slip", "io.kubernetes.cri/reserved-ip-duratoin", "10").StatefulSet, "did you mean " + retain},
		{templated(ns, "must", reservation.ModeAnnotation, "required").StatefulSet, "without a duration"},
		{
			&appsv1.Deployment{
				ObjectMeta: metav1.ObjectMeta{Name: "app", Namespace: ns},
				Spec:       appsv1.DeploymentSpec{Selector: like.Spec.Selector, Template: like.Spec.Template},
			}, "never come back under their names",
		},
		{&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job", Namespace: ns}, Spec: batchv1.JobSpec{Template: once}}, "never come back under their names"},
		{
			testenv.AStatefulSet("host", 1).In(ns).With(auto, "true").With(appsv1beta1.AnnotationRequiredTopology, "kubernetes.io/hostnam").StatefulSet,
			"did you mean kubernetes.io/hostname?",
		},
	}
	for _, tc := range cases {
		env.Create(t, tc.workload)
	}
	m.start(t, m.adviser(later()))
	for _, tc := range cases {
		env.Told(t, tc.workload, pin.ReasonIgnored, tc.word)
	}
}

// A workload is told once of a mistake, however often it is scaled, and again of another one.
func TestAMistakeIsToldOnce(t *testing.T) {
	m := newManager(t)
	m.start(t, m.adviser(later()))
	ns := env.Namespace(t)
	set := templated(ns, "web", reservation.RetainAnnotation, "10")
	env.Create(t, set.StatefulSet)
	env.ToldOnce(t, set, pin.ReasonIgnored)
	env.Patch(t, set.StatefulSet, `{"spec":{"replicas":3},"metadata":{"annotations":{"example.com/other":"x"}}}`)
	env.Patch(t, set.StatefulSet, `{"metadata":{"annotations":{"limpet.dev/retentoin":"red"}}}`)
	env.Told(t, set, pin.ReasonIgnored, "limpet.dev/retentoin")
	if n := env.CountEvents(t, set, pin.ReasonIgnored); n != 2 {
		t.Errorf("%d events, want one of each mistake", n)
	}
}

// A PersistentPodState may be applied after its StatefulSet. Nothing is told in between.
func TestAPersistentPodStateMayFollowItsWorkload(t *testing.T) {
	m := newManager(t)
	m.start(t, m.adviser(clock.RealClock{}))
	ns := env.Namespace(t)
	set, probe := templated(ns, "web", reservation.RetainAnnotation, "10"), templated(ns, "slip", "limpet.dev/retentoin", "red")
	env.Create(t, set.StatefulSet, probe.StatefulSet, testenv.APersistentPodState("web").In(ns).Prefers(100, hostname).PersistentPodState)
	env.Told(t, probe, pin.ReasonIgnored, "limpet.dev/retentoin") // it is behind the other in the queue
	if n := env.CountEvents(t, set, pin.ReasonIgnored); n != 0 {
		t.Errorf("%d events on a StatefulSet whose PersistentPodState follows", n)
	}
}
