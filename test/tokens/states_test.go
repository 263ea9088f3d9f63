package tokens_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/testenv"
	appsv1beta1 "github.com/limpet-io/limpet/pkg/api/apps/v1beta1"
)

type persistentPodState = *appsv1beta1.PersistentPodState

// A generated object holds up no deletion and attracts no other program.
func TestGeneratedStatesHaveNoForeignMetadata(t *testing.T) {
	deploy(t)
	node, ns := env.Node(t), env.Namespace(t)
	thief := env.As(t, env.Token(t, controller, node.Name))
	made, marked := generatedState(ns, "made"), generatedState(ns, "marked")
	marked.Labels["team"], marked.Annotations, marked.Finalizers = "a", map[string]string{"owner": "tenant"}, []string{"example.com/theirs"}
	marked.OwnerReferences = append(marked.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "chart", UID: "x"})
	env.Create(t, marked)
	another := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "theirs", UID: "z"}
	edits := map[string]func(s persistentPodState){
		"a finalizer":                  func(s persistentPodState) { s.Finalizers = append(s.Finalizers, "example.com/hold") },
		"a label":                      func(s persistentPodState) { s.Labels["app"] = "db" },
		"an empty label":               func(s persistentPodState) { s.Labels["app"] = "" },
		"an annotation":                func(s persistentPodState) { metav1.SetMetaDataAnnotation(&s.ObjectMeta, "a", "") },
		"a second owner":               func(s persistentPodState) { s.OwnerReferences = append(s.OwnerReferences, another) },
		"an owner of another kind":     func(s persistentPodState) { s.OwnerReferences[0].Kind = "Deployment" },
		"an owner of another group":    func(s persistentPodState) { s.OwnerReferences[0].APIVersion = "example.com/v1" },
		"an owner that waits for it":   func(s persistentPodState) { s.OwnerReferences[0].BlockOwnerDeletion = new(true) },
		"an owner of another workload": func(s persistentPodState) { s.OwnerReferences[0].Name = "theirs" },
	}
	for name, edit := range edits {
		t.Run("create with "+name, func(t *testing.T) { refused(t, thief, denied, create(changed(made, edit))) })
		t.Run("update with "+name, func(t *testing.T) { refused(t, thief, denied, update(marked, edit)) })
	}
	for name, edit := range map[string]func(s persistentPodState){
		"finalizers":    func(s persistentPodState) { s.Finalizers = nil },
		"a label":       func(s persistentPodState) { delete(s.Labels, "team") },
		"an annotation": func(s persistentPodState) { s.Annotations = nil },
		"an owner":      func(s persistentPodState) { s.OwnerReferences = s.OwnerReferences[:1] },
		"all owners":    func(s persistentPodState) { s.OwnerReferences = nil },
	} {
		t.Run("remove "+name, func(t *testing.T) { refused(t, thief, denied, update(marked, edit)) })
	}
	t.Run("follow the annotations, for a workload that was created again", func(t *testing.T) {
		allowed(t, thief, update(marked, func(s persistentPodState) {
			s.OwnerReferences = append(s.OwnerReferences[1:], generatedState(ns, "marked").OwnerReferences...)
			s.OwnerReferences[1].UID, s.Spec.RequiredPersistentTopology.Keys = "again", []string{"zone"}
		}))
	})
	t.Run("no owner", func(t *testing.T) {
		allowed(t, thief, update(marked, func(s persistentPodState) { s.OwnerReferences = s.OwnerReferences[:1] }))
		allowed(t, thief, create(changed(made, func(s persistentPodState) { s.OwnerReferences = nil })))
	})
	env.Patch(t, marked, `{"metadata":{"finalizers":null}}`)
}

// statusOf patches the status of a PersistentPodState.
func statusOf(s persistentPodState, status appsv1beta1.PersistentPodStateStatus) request {
	return func(ctx context.Context, c client.Client) error {
		text, err := json.Marshal(map[string]any{"status": status})
		if err != nil {
			return err
		}
		return patchStatus(s, string(text))(ctx, c)
	}
}

// records are the records of a number of pods.
func records(pods int, annotations map[string]string) appsv1beta1.PersistentPodStateStatus {
	states := map[string]appsv1beta1.PodState{}
	for i := range pods {
		states[fmt.Sprintf("web-%d", i)] = appsv1beta1.PodState{NodeName: "n1", UID: "u", Annotations: annotations}
	}
	return appsv1beta1.PersistentPodStateStatus{ObservedGeneration: 1, PodStates: states}
}

// The webhook writes recorded annotations into pods. So records hold those that the user has
// named, and those that the user had named when they were recorded.
func TestRecordsHoldNamedAnnotations(t *testing.T) {
	deploy(t)
	node, ns := env.Node(t), env.Namespace(t)
	thief := env.As(t, env.Token(t, controller, node.Name))
	written := testenv.APersistentPodState("written").In(ns).Requires("rack").PersistentPodState
	written.Spec.PersistentPodAnnotations = []appsv1beta1.PersistentPodAnnotation{{Key: "a"}, {Key: "b"}}
	plain := testenv.APersistentPodState("plain").In(ns).Requires("rack").PersistentPodState
	env.Create(t, written, plain)
	networks := map[string]string{"k8s.v1.cni.cncf.io/networks": "secret"}
	refused(t, thief, denied, statusOf(plain, records(1, networks)))
	refused(t, thief, denied, statusOf(plain, records(1, map[string]string{"a": ""})))
	refused(t, thief, denied, statusOf(written, records(1, map[string]string{"a": "1", "c": ""})))
	allowed(t, thief, statusOf(plain, records(2, nil)))
	allowed(t, thief, statusOf(written, records(1, map[string]string{"a": "1", "b": "2"})))
	env.Patch(t, written, `{"spec":{"persistentPodAnnotations":[{"key":"b"}]}}`)
	t.Run("a record of what is named no more stays beside a new one", func(t *testing.T) {
		more := records(1, map[string]string{"a": "1", "b": "2"})
		more.PodStates["web-1"] = appsv1beta1.PodState{NodeName: "n2", Annotations: map[string]string{"b": "2"}}
		allowed(t, thief, statusOf(written, more))
		more.PodStates["web-1"] = appsv1beta1.PodState{NodeName: "n2", Annotations: map[string]string{"a": "2"}}
		refused(t, thief, denied, statusOf(written, more))
	})
}

// The API server ends a costly evaluation with a refusal. No workload is too large.
func TestLargeRecordsAreWritten(t *testing.T) {
	deploy(t)
	node, ns := env.Node(t), env.Namespace(t)
	c := env.As(t, env.Token(t, controller, node.Name))
	for _, size := range []struct{ pods, named int }{{5000, 1}, {2000, 10}, {300, 64}} {
		t.Run(fmt.Sprintf("%d pods with %d annotations", size.pods, size.named), func(t *testing.T) {
			s := testenv.APersistentPodState(env.Name("web")).In(ns).Requires("rack").PersistentPodState
			values := map[string]string{}
			for i := range size.named {
				key := fmt.Sprintf("example.com/a-%d", i)
				s.Spec.PersistentPodAnnotations = append(s.Spec.PersistentPodAnnotations, appsv1beta1.PersistentPodAnnotation{Key: key})
				values[key] = "v"
			}
			env.Create(t, s)
			allowed(t, c, statusOf(s, records(size.pods, values)))
			allowed(t, c, statusOf(s, records(size.pods+1, values)))
		})
	}
}
