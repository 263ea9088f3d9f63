package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
	"github.com/limpet-io/limpet/test/programs"
)

// manifests are what a user keeps in Git, in JSON: a StatefulSet that leaves its partition out, and what Limpet reads
// for it.
const manifests = `{"apiVersion": "v1", "kind": "List", "items": [
{"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "web", "annotations": {"limpet.dev/partition": "50%"}}, "spec": {
  "replicas": 3, "serviceName": "web", "podManagementPolicy": "Parallel", "selector": {"matchLabels": {"app": "web"}}, "template": {
    "metadata": {"labels": {"app": "web"}, "annotations": {"io.kubernetes.cri/reserved-ip-duration": "10"}}, "spec": {
      "nodeSelector": {"example.com/stage": "drift"}, "tolerations": [{"key": "example.com/stage", "operator": "Exists"}],
      "containers": [{"name": "main", "image": "example.com/web"}]}}}},
{"apiVersion": "apps.kruise.io/v1beta1", "kind": "PersistentPodState", "metadata": {"name": "web"}, "spec": {
  "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"},
  "preferredPersistentTopology": [{"weight": 100, "preference": {"keys": ["kubernetes.io/hostname"]}}]}},
{"apiVersion": "apps.kruise.io/v1beta1", "kind": "WorkloadSpread", "metadata": {"name": "web"}, "spec": {
  "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}, "subsets": [{"name": "all"}]}},
{"apiVersion": "policy.kruise.io/v1beta1", "kind": "PodUnavailableBudget", "metadata": {"name": "web"}, "spec": {
  "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web"}, "maxUnavailable": "50%"}},
{"apiVersion": "limpet.dev/v1alpha1", "kind": "DistributedPodDisruptionBudget", "metadata": {"name": "web"}, "spec": {
  "selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 2}},
{"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"}, "spec": {
  "selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 2}}]}`

// TestGitOpsShowsNoDrift has Limpet work on manifests that were applied as Flux and Argo CD do, and applies them again.
func TestGitOpsShowsNoDrift(t *testing.T) {
	install(t)
	controller := startReplica(t)
	pointWebhooksAt(t, controller)
	controller.waitReady(t)
	env.StartScheduler(t)
	env.StartControllers(t, "statefulset-controller,disruption-controller")
	var nodes []*corev1.Node
	for _, name := range []string{"drift-a", "drift-b"} {
		nodes = append(nodes, testenv.ANode(name).Labelled(stage, "drift").Tainted(stage, corev1.TaintEffectNoSchedule).WithRoom(20, 8).Node)
		env.Create(t, nodes[len(nodes)-1])
	}
	startKubelets(t, nodes...)
	for name, flags := range map[string][]string{"server-side": {"--server-side", "--field-manager=gitops"}, "three-way": nil} {
		t.Run(name, func(t *testing.T) {
			p := &play{set: testenv.AStatefulSet("web", 3).In(env.Namespace(t))}
			apply := append([]string{"apply", "-n", p.set.Namespace}, flags...)
			applied := kubectl(t, apply...)
			for i := range applied {
				env.RemoveAtEnd(t, &applied[i])
			}
			p.await(t)
			p.recorded(t)
			p.delete(t, "web-1")
			p.outcome(t, "web-1", appsv1beta1.Kept, "")
			testenv.Eventually(t, func() error {
				live, again := kubectl(t, "get", "-n", p.set.Namespace), kubectl(t, append(apply, "--dry-run=server")...)
				if diff := cmp.Diff(live, again); diff != "" { // unless a status was written in between
					return errors.New("drift (-live +applied again):\n" + diff)
				}
				return written(applied, live)
			})
		})
	}
}

// written checks that Limpet has written each status, and the fields that docs/operate/autoscalers-and-gitops.md names,
// and no other field. The webhook gave the set its partition when it was applied.
func written(applied, live []unstructured.Unstructured) error {
	want := []string{"StatefulSet.metadata.annotations." + appsv1beta1.AnnotationExpectedUpdated}
	for _, o := range live {
		want = append(want, o.GetKind()+".status")
	}
	var got []string
	for i := range live {
		got = append(got, changes(live[i].GetKind(), applied[i].Object, live[i].Object)...)
	}
	slices.Sort(got)
	slices.Sort(want)
	if partition, _, _ := unstructured.NestedInt64(live[0].Object, "spec", "updateStrategy", "rollingUpdate", "partition"); partition != 2 {
		return fmt.Errorf("partition %d, want 50%% of 3 pods", partition)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return errors.New("written fields (-want +got):\n" + diff)
	}
	return nil
}

// changes returns the paths of the fields in which two objects differ. A status is one field.
func changes(path string, before, after any) (all []string) {
	b, isMap := before.(map[string]any)
	a, areMaps := after.(map[string]any)
	switch {
	case reflect.DeepEqual(before, after), slices.Contains([]string{"resourceVersion", "generation", "managedFields"}, path[strings.LastIndex(path, ".")+1:]):
		return nil
	case !isMap || !areMaps || strings.HasSuffix(path, ".status"):
		return []string{path}
	}
	keys := maps.Clone(a)
	maps.Copy(keys, b)
	for key := range keys {
		all = append(all, changes(path+"."+key, b[key], a[key])...)
	}
	return all
}

// kubectl runs a command on the manifests, and returns the objects that it prints.
func kubectl(t *testing.T, args ...string) []unstructured.Unstructured {
	t.Helper()
	program, err := programs.Find(os.Getenv(testenv.AssetsVar), "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, append(args, "--kubeconfig="+env.Kubeconfig(t, ""), "-f", "-", "-o", "json", "--show-managed-fields")...)
	cmd.Stdin = strings.NewReader(manifests)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var list unstructured.UnstructuredList
	if err == nil {
		err = list.UnmarshalJSON(out)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("kubectl %v: %w: %s", args, err, errs.String()))
	}
	return list.Items
}
