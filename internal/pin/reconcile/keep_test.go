package reconcile_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
)

const keep = reservation.KeepAnnotation

// keepsFor waits until a running pod asks for a time, by a word of the namespace, of its workload or of its own ("").
func keepsFor(t *testing.T, pod *corev1.Pod, value, from string) {
	t.Helper()
	want := map[string]string{}
	if value != "" {
		want[keep] = value
	}
	if from != "" {
		want[pin.AnnotationKeepFrom] = from
	}
	testenv.Eventually(t, func() error {
		env.Read(t, client.ObjectKeyFromObject(pod), pod)
		got := map[string]string{}
		for _, key := range []string{keep, pin.AnnotationKeepFrom, reservation.RetainAnnotation} {
			if v, ok := pod.Annotations[key]; ok {
				got[key] = v
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("pod %s (-want +got):\n%s", pod.Name, diff)
		}
		return nil
	})
}

// One word on a namespace serves the workloads that are there, whose objects stay as they are: an operator may own them.
// A nearer word counts before it, and what is taken away is taken from running pods.
func TestOneWordOnANamespace(t *testing.T) {
	startGenerator(t)
	env.ServeKinds(t)
	name, node := env.Namespace(t), env.Node(t)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	set, other := testenv.AStatefulSet("web", 2).In(name), testenv.AStatefulSet("other", 1).In(name)
	pod := func(of testenv.StatefulSet, ordinal int) *corev1.Pod {
		p := testenv.APod(fmt.Sprintf("%s-%d", of.Name, ordinal)).In(name).OwnedBy(of.StatefulSet).On(node.Name).Ready()
		return p.Pod
	}
	env.Create(t, set.StatefulSet, other.StatefulSet)
	game := aWorkload(t, gameServers, name, "game", map[string]any{"size": int64(1)})
	running, own, others := pod(set, 0), pod(set, 1), pod(other, 0)
	own.Annotations = map[string]string{keep: "1m"}
	env.Create(t, running, own, others)

	env.Annotate(t, ns, keep, "10m")
	for _, of := range []client.Object{set.StatefulSet, other.StatefulSet, game} {
		isGenerated(t, of)
	}
	if diff := cmp.Diff(testenv.APersistentPodState("web").Prefers(100, hostname).Spec, env.MustState(t, set).Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	keepsFor(t, running, "10m", "Namespace")
	keepsFor(t, others, "10m", "Namespace")
	keepsFor(t, own, "1m", "")
	after := set.DeepCopy()
	env.Read(t, client.ObjectKeyFromObject(set.StatefulSet), after)
	if diff := cmp.Diff(set.Annotations, after.Annotations); diff != "" {
		t.Errorf("the workload is written to (-want +got):\n%s", diff)
	}

	env.Annotate(t, set.StatefulSet, keep, "5m")
	keepsFor(t, running, "5m", "StatefulSet")
	unanswered := testenv.APod("other-1").In(name).OwnedBy(other.StatefulSet) // by any webhook, as it was created
	if err := env.Client.Create(t.Context(), unanswered.Pod); err != nil {    // no status is written, which the reconciler could outrun
		t.Fatal(err)
	}
	env.RemoveAtEnd(t, unanswered.Pod)
	keepsFor(t, unanswered.Pod, "10m", "Namespace")

	env.Annotate(t, ns, keep, "ten") // what was asked stays, and the workloads tell
	env.Told(t, other, pin.ReasonBadKeep, `remedy`)
	keepsFor(t, others, "10m", "Namespace")
	env.Annotate(t, ns, keep, "10m")

	env.Annotate(t, set.StatefulSet, keep, "0")
	keepsFor(t, running, "", "")
	testenv.Eventually(t, func() error {
		if _, err := env.State(t, set); !apierrors.IsNotFound(err) {
			return fmt.Errorf("get PersistentPodState: %w, want it removed", err)
		}
		return nil
	})
	env.Annotate(t, ns, keep, "")
	keepsFor(t, others, "", "")
	late := testenv.APod("other-2").In(name).OwnedBy(other.StatefulSet).With(keep, "10m").With(pin.AnnotationKeepFrom, "Namespace")
	env.Create(t, late.Pod) // by a webhook whose cache was behind
	keepsFor(t, late.Pod, "", "")
	keepsFor(t, own, "1m", "")
}

// The word on a pod template asks for the way home, too; also on that of a kind of which the cache holds no templates.
func TestOneWordOnATemplate(t *testing.T) {
	startGenerator(t)
	env.ServeKinds(t)
	ns := env.Namespace(t)
	set := testenv.AStatefulSet("web", 1).In(ns)
	env.Create(t, set.StatefulSet)
	game := aWorkload(t, kruiseSets, ns, "game", map[string]any{"replicas": int64(1)})
	env.Patch(t, set.StatefulSet, `{"spec":{"template":{"metadata":{"annotations":{"limpet.dev/keep":"10m"}}}}}`)
	env.Patch(t, game, `{"spec":{"template":{"metadata":{"annotations":{"limpet.dev/keep":"10m"}}}}}`)
	isGenerated(t, set.StatefulSet)
	isGenerated(t, game)
}

// A controller from before limpet.dev/keep deletes what was generated for it, with the records, and leaves the annotations.
// The next one generates and records again: no pod that runs has lost anything.
func TestADowngradeBelowKeepLosesNothingOfPodsThatRun(t *testing.T) {
	name, node := env.Namespace(t), env.Node(t)
	env.Annotate(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, keep, "10m")
	set := testenv.AStatefulSet("web", 1).In(name)
	pod := testenv.APod("web-0").In(name).OwnedBy(set.StatefulSet).On(node.Name).At("10.0.1.5").Ready()
	env.Create(t, set.StatefulSet, pod.Pod)
	for range 2 {
		m := newManager(t)
		stop := m.start(t, m.generator(), m.recorder())
		isGenerated(t, set.StatefulSet)
		env.RecordedOn(t, set, map[string]string{"web-0": node.Name})
		if ips := env.MustState(t, set).Status.PodStates["web-0"].IPs; ips != "10.0.1.5" {
			t.Errorf("the recorded addresses are %q, want 10.0.1.5", ips)
		}
		keepsFor(t, pod.Pod, "10m", "Namespace")
		stop()
		env.Remove(t, env.MustState(t, set))
	}
}
