package reconcile_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/pin"
	"github.com/limpet-io/limpet/internal/testenv"
)

// TestARecordIsForgotten gives the record of a pod up while the pod runs, and then deletes the pod. The record of the
// next pod stays, although the annotation does.
func TestARecordIsForgotten(t *testing.T) {
	startRecorder(t)
	node, set := env.Node(t), preferring(t)
	pod := running(t, set, node.Name, "10.0.1.5")
	state := env.MustState(t, set)
	before := state.DeepCopy()
	metav1.SetMetaDataAnnotation(&state.ObjectMeta, pin.AnnotationForget, string(pod.UID))
	if err := env.Client.Patch(t.Context(), state, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	testenv.Eventually(t, func() error {
		if r, kept := env.MustState(t, set).Status.PodStates[pod.Name]; kept {
			return fmt.Errorf("record %+v", r)
		}
		return nil
	})
	running(t, set, node.Name, "10.0.1.6")
}
