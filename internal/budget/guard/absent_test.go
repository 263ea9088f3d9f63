package guard_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/limpet-io/limpet/internal/testenv"
)

// A workload of one replica counts while its pod is absent, so that of six of them one may be away.
func TestAWorkloadWithoutAPodCounts(t *testing.T) {
	serve(t)
	ns := guarded(t)
	put(t, aBudget(ns, "web", "web", intstr.FromInt32(1)))
	var pods []*corev1.Pod
	for i := range 6 {
		set := testenv.AStatefulSet(fmt.Sprint("web", i), 1).In(ns)
		set.Spec.Selector.MatchLabels, set.Spec.Template.Labels = map[string]string{"app": "web"}, map[string]string{"app": "web"}
		pod := aPod(set, 0)
		pod.Labels = map[string]string{"app": "web"}
		put(t, set.StatefulSet)
		if i > 0 { // the first one has none
			put(t, pod)
			pods = append(pods, pod)
		}
	}
	refusedBy(t, evictAs(t.Context(), env.Client, pods[0]), "web")
}
