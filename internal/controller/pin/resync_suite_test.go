package pin_test

import (
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	controller "github.com/limpet-io/limpet/internal/controller/pin"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
)

func TestAStatefulSetWhosePodWasRefusedIsWokenUp(t *testing.T) {
	m := newManager(t)
	m.start(t, m.resyncer())
	set := testenv.AStatefulSet("web", 1).In(env.Namespace(t))
	set.Spec.Template.Annotations = map[string]string{reservation.RetainAnnotation: "10"}
	env.Create(t, set.StatefulSet)
	nudged(t, set.StatefulSet)
}

// nudged waits until a workload that lacks a pod is woken up.
func nudged(t *testing.T, workload client.Object) {
	t.Helper()
	testenv.Eventually(t, func() error {
		env.Read(t, client.ObjectKeyFromObject(workload), workload)
		if workload.GetAnnotations()[controller.AnnotationNudged] == "" {
			return fmt.Errorf("annotations: %v", workload.GetAnnotations())
		}
		return nil
	})
}
