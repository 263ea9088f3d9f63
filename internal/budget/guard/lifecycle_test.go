package guard_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/testenv"
	policyv1beta1 "github.com/limpet-io/limpet/pkg/api/policy/v1beta1"
)

// Hooks of a pod that has the label hook=true, or the finalizer.
const (
	byLabel     = `preDelete: {labelsHandler: {hook: "true"}}`
	byFinalizer = `preDelete: {finalizersHandler: [example.com/hook], markPodNotReady: true}`
	beforeBoth  = byLabel + "\n" + `inPlaceUpdate: {labelsHandler: {hook: "true"}, markPodNotReady: true}`
)

// with makes a pod have handlers in the place of a time, and what they wait for.
func with(hooks string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Annotations = map[string]string{policyv1beta1.AnnotationLifecycle: hooks}
		p.Labels["hook"], p.Finalizers = "true", []string{"example.com/hook"}
	}
}

// letsGo is what a handler does.
func letsGo(patch string) func(*testing.T, *corev1.Pod) {
	return func(t *testing.T, pod *corev1.Pod) {
		t.Helper()
		passes(t, inTime(t.Context(), func() error {
			return env.Client.Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
		}))
	}
}

var (
	noLabel     = letsGo(`{"metadata":{"labels":{"hook":null}}}`)
	otherValue  = letsGo(`{"metadata":{"labels":{"hook":"false"}}}`)
	noFinalizer = letsGo(`{"metadata":{"finalizers":null}}`)
)

func after(d time.Duration) func(*testing.T, *corev1.Pod) {
	return func(*testing.T, *corev1.Pod) { pass(d) }
}

func evicts(t *testing.T, pod *corev1.Pod) error {
	t.Helper()
	return evictAs(t.Context(), env.Client, pod)
}

func deletes(t *testing.T, pod *corev1.Pod) error {
	t.Helper()
	return deleteAs(t.Context(), env.Client, pod)
}

func newImage(t *testing.T, pod *corev1.Pod) error {
	t.Helper()
	patch := []byte(`{"spec":{"containers":[{"name":"main","image":"example.com/next"}]}}`)
	return inTime(t.Context(), func() error {
		return env.Client.Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch))
	})
}

// What OpenKruise's specs want of the hooks of its workloads, and a time in their place: a pod that has one is prepared
// first, stays where it is, and goes when the hook is done. Nothing else ends the wait, but for its limit.
func TestHooksAsOpenKruiseHasThem(t *testing.T) {
	serve(t)
	env.Create(t, testenv.ANode("n1").WithRoom(100, 64).Node) // a resize asks for the pod's node
	ns, _ := asked(t, 1)
	set := testenv.AStatefulSet("hooks", 30).In(ns)
	put(t, set.StatefulSet)
	timed := func(*corev1.Pod) {}
	restarts := func(p *corev1.Pod) {
		p.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
	}
	resizes := func(t *testing.T, pod *corev1.Pod) error {
		return inTime(t.Context(), func() error { return plainly(resize)(t, pod) })
	}
	byController := func(t *testing.T, pod *corev1.Pod) error {
		return deleteAs(t.Context(), as(t, "system:serviceaccount:kube-system:statefulset-controller"), pod)
	}
	ordinal := 0
	for name, row := range map[string]struct {
		pod    func(*corev1.Pod)
		asks   func(*testing.T, *corev1.Pod) error
		held   string // what the first answer says; "" for a pod that goes at once
		reason string
		ends   func(*testing.T, *corev1.Pod)
		not    func(*testing.T, *corev1.Pod) // what does not end the wait
		also   func(*corev1.Pod)
	}{
		"a pod is deleted, with a label":           {with(byLabel), deletes, "may go when its handler is done, in 600 s", budget.ReasonRepeat, noLabel, noFinalizer, nil},
		"a pod is deleted, with a finalizer":       {with(byFinalizer), deletes, "may go when its handler is done, in 600 s", budget.ReasonRepeat, noFinalizer, noLabel, nil},
		"a node is drained":                        {with(byLabel), evicts, "may go when its handler is done, in 600 s", budget.ReasonRepeat, otherValue, after(9 * time.Minute), nil},
		"a workload scales in, or rolls":           {with(byLabel), byController, "goes when its handler is done, in 600 s", budget.ReasonFollows, noLabel, after(5 * time.Minute), nil},
		"a handler that is never done":             {with(byLabel), evicts, "may go when its handler is done, in 600 s", budget.ReasonRepeat, after(61 * time.Second), after(9 * time.Minute), nil},
		"a handler, and a limit":                   {with(byLabel), evicts, "may go when its handler is done, in 60 s", budget.ReasonRepeat, after(62 * time.Second), after(20 * time.Second), func(p *corev1.Pod) { p.Annotations[policyv1beta1.AnnotationDrainFirst] = "1m" }},
		"a pod that its handler does not know":     {with(byLabel), evicts, "", "", nil, nil, func(p *corev1.Pod) { delete(p.Labels, "hook") }},
		"a label of another value":                 {with(byLabel), evicts, "", "", nil, nil, func(p *corev1.Pod) { p.Labels["hook"] = "1" }},
		"a hook before deletions, and an image":    {with(byLabel), newImage, "", "", nil, nil, nil},
		"an image, with a label":                   {with(beforeBoth), newImage, "may be changed when its handler is done, in 600 s", budget.ReasonChange, noLabel, noFinalizer, nil},
		"an image, after a time":                   {timed, newImage, "may be changed in 60 s: ask again", budget.ReasonChange, after(62 * time.Second), after(20 * time.Second), nil},
		"a resize that restarts":                   {timed, resizes, "may be changed in 60 s: ask again", budget.ReasonChange, after(62 * time.Second), after(20 * time.Second), restarts},
		"a resize that restarts nothing":           {timed, resizes, "", "", nil, nil, nil},
		"a hook that is wrong does not keep a pod": {with("preDelete: {}"), evicts, "", "", nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if row.also == nil {
				row.also = timed
			}
			sinceResize(t, strings.HasPrefix(name, "a resize"))
			ordinal++
			pod := drained(t, set, ordinal, row.pod, row.also)
			if row.held == "" {
				if err := row.asks(t, pod); err != nil {
					t.Error(err)
				}
				return
			}
			heldFor(t, row.asks(t, pod), row.held)
			if c := service(t, pod); c.Status != corev1.ConditionFalse || c.Reason != row.reason || c.ObservedGeneration != pod.Generation {
				t.Errorf("condition %+v, want False, %s, generation %d", c, row.reason, pod.Generation)
			}
			row.not(t, pod)
			heldFor(t, row.asks(t, pod), "is out of service")
			if row.ends(t, pod); row.asks(t, pod) != nil {
				t.Error("the pod is kept for longer")
			}
		})
	}
}

// A workload with a hook rolls one pod after the other: the budget counts the pod that is prepared.
func TestHooksGoOneByOne(t *testing.T) {
	serve(t)
	ns := guarded(t)
	put(t, aBudget(ns, "web", "web", intstr.FromInt32(1)))
	set := testenv.AStatefulSet("web", 3).In(ns)
	put(t, set.StatefulSet)
	first, second := drained(t, set, 0, with(beforeBoth)), drained(t, set, 1, with(beforeBoth))
	drained(t, set, 2)
	heldFor(t, newImage(t, first), "may be changed")
	refusedBy(t, newImage(t, second), "web")
	refusedBy(t, evicts(t, second), "web")
	if c := service(t, second); c.Status != corev1.ConditionTrue {
		t.Errorf("the second pod: %+v", c)
	}
	noLabel(t, first)
	if err := newImage(t, first); err != nil {
		t.Fatal(err)
	}
	refusedBy(t, newImage(t, second), "web") // the kubelet has not changed the first one
}
