package main

import (
	"os"
	"regexp"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

// errorLine is a line that the logger writes for an error.
var errorLine = regexp.MustCompile(`(?m)^E\d{4} .*$|"err"=.*$`)

// slow is in the error lines of requests that took too long, as any may on a busy machine.
var slow = regexp.MustCompile(`context deadline|i/o timeout|handshake timeout|timeout awaiting|Client\.Timeout|timed out|time allotted`)

// noErrors fails the test for each error line in the log of a replica, apart from those of slow requests.
func (r *replica) noErrors(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(r.log)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range errorLine.FindAllString(string(text), -1) {
		if !slow.MatchString(line) {
			t.Errorf("replica %d: %s", r.cmd.Process.Pid, line)
		}
	}
}

// Two replicas start in a fresh cluster, and do their work in a namespace until that is deleted.
// Nothing of this is an error.
func TestAFirstStartLogsNoErrors(t *testing.T) {
	install(t)
	leader, other := startBoth(t)
	rebuilt(t)
	generated(t)

	set := testenv.AStatefulSet("web", 1).In(env.Namespace(t)).
		With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationPreferredTopology, hostname)
	env.Create(t, set.StatefulSet)
	testenv.Eventually(t, func() error {
		_, err := env.State(t, set)
		return err
	})
	if err := env.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: set.Namespace}}); err != nil {
		t.Fatal(err)
	}
	env.Remove(t, env.MustState(t, set)) // as the namespace controller does, before it removes the set
	marker := testenv.AStatefulSet("later", 1).In(env.Namespace(t)).
		With(appsv1beta1.AnnotationAutoGenerate, "true").With(appsv1beta1.AnnotationPreferredTopology, hostname)
	env.Create(t, marker.StatefulSet)
	testenv.Eventually(t, func() error {
		_, err := env.State(t, marker)
		return err
	})
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(set.StatefulSet), &appsv1.StatefulSet{}); err != nil {
		t.Fatalf("the set must outlive its object in this test: %v", err)
	}
	leader.noErrors(t)
	other.noErrors(t)
}

// The CRD of a kind of workload is removed while its objects are watched. The kind is no longer
// served, which is reported where it matters, and is no error of the controller.
func TestTheRemovalOfACRDLogsNoErrors(t *testing.T) {
	install(t)
	env.NameKinds(t)
	crd := env.ServeKind(t, testenv.GameServers)
	env.ServeKind(t, testenv.KruiseSets)
	env.AggregateRights(t)
	leader, other := startBoth(t)
	game := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"name": "game", "namespace": env.Namespace(t), "annotations": map[string]any{
			appsv1beta1.AnnotationAutoGenerate: "true", appsv1beta1.AnnotationPreferredTopology: hostname,
		}},
		"spec": map[string]any{"size": int64(1)},
	}}
	game.SetGroupVersionKind(testenv.GameServers)
	testenv.Eventually(t, func() error { return env.Client.Create(t.Context(), game) })
	testenv.Eventually(t, func() error {
		_, err := env.State(t, game)
		return err
	})
	env.Remove(t, crd)
	env.Condition(t, game, appsv1beta1.ConditionRecording, metav1.ConditionFalse, appsv1beta1.ReasonTargetUnread, "")
	generated(t)
	leader.noErrors(t)
	other.noErrors(t)
}
