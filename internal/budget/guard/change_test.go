package guard_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/testenv"
)

// What restarts no container of a pod is never held, and a dry run changes nothing. What the request itself takes away of a
// handler ends no wait.
func TestWhichChangesAreNotHeld(t *testing.T) {
	serve(t)
	for _, covered := range []bool{false, true} {
		ns, _ := asked(t, 1)
		set := testenv.AStatefulSet("changes", 1).In(ns)
		put(t, set.StatefulSet)
		if covered {
			ns = guarded(t)
			set = testenv.AStatefulSet("changes", 1).In(ns)
			put(t, set.StatefulSet, aBudget(ns, "changes", "changes", intstr.FromInt32(1)))
		}
		pod := drained(t, set, 0, with(beforeBoth))
		patch := func(text string, options ...client.PatchOption) error {
			return inTime(t.Context(), func() error {
				return env.Client.Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, []byte(text)), options...)
			})
		}
		image := `"spec":{"containers":[{"name":"main","image":"example.com/next"}]}`
		for _, free := range []string{
			`{"metadata":{"annotations":{"a":"b"},"labels":{"c":"d"},"finalizers":["example.com/hook","example.com/other"]}}`,
			`{"spec":{"tolerations":[{"key":"a","operator":"Exists"}]}}`,
		} {
			if err := patch(free); err != nil {
				t.Errorf("%s: %v", free, err)
			}
		}
		if err := patch("{"+image+"}", client.DryRunAll); err != nil {
			t.Errorf("a dry run: %v", err)
		}
		if err := env.Client.Status().Patch(t.Context(), pod.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"status":{"message":"x"}}`))); err != nil {
			t.Errorf("of the status: %v", err)
		}
		if c := service(t, pod); c.Status != corev1.ConditionTrue {
			t.Errorf("nothing was asked: %+v", c)
		}
		heldFor(t, patch(`{"metadata":{"labels":{"hook":null},"finalizers":null},`+image+`}`), "may be changed")
		if c := service(t, pod); c.Status != corev1.ConditionFalse || c.Reason != budget.ReasonChange {
			t.Errorf("condition %+v", c)
		}
		pass(time.Minute)
		heldFor(t, patch("{"+image+"}"), "may be changed")
		noLabel(t, pod)
		if err := patch("{" + image + "}"); err != nil {
			t.Errorf("the handler is done: %v", err)
		}
	}
}
