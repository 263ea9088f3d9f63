package leader_test

import (
	"context"
	"errors"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/limpet-io/limpet/internal/platform/leader"
	"github.com/limpet-io/limpet/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, os.Getenv(testenv.AssetsVar), &env)) }

var errClosed = errors.New("this replica does not lead")

// No method of the client that can write reaches the API server while the replica does not lead.
func TestEveryWriteWaitsForTheLease(t *testing.T) {
	pod := testenv.APod("web").In(env.Namespace(t)).Pod
	env.Create(t, pod)
	through, err := rest.HTTPClientFor(env.Config)
	if err != nil {
		t.Fatal(err)
	}
	through = leader.HTTPClient(through, func(context.Context) error { return errClosed })
	c, err := client.New(env.Config, client.Options{Scheme: env.Scheme, HTTPClient: through})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	merge := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"a":"b"}}}`))
	for name, write := range map[string]func() error{
		"create":        func() error { return c.Create(ctx, testenv.APod("other").In(pod.Namespace).Pod) },
		"update":        func() error { return c.Update(ctx, pod.DeepCopy()) },
		"patch":         func() error { return c.Patch(ctx, pod.DeepCopy(), merge) },
		"delete":        func() error { return c.Delete(ctx, pod.DeepCopy()) },
		"delete all":    func() error { return c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(pod.Namespace)) },
		"update status": func() error { return c.Status().Update(ctx, pod.DeepCopy()) },
		"patch status":  func() error { return c.Status().Patch(ctx, pod.DeepCopy(), merge) },
		"bind": func() error {
			return c.SubResource("binding").Create(ctx, pod.DeepCopy(), &corev1.Binding{Target: corev1.ObjectReference{Name: "n"}})
		},
	} {
		if err := write(); !errors.Is(err, errClosed) {
			t.Errorf("%s: %v, want it to wait", name, err)
		}
	}
	var after corev1.Pod
	if err := c.Get(ctx, client.ObjectKeyFromObject(pod), &after); err != nil {
		t.Fatalf("a read waits: %v", err)
	}
	if after.ResourceVersion != pod.ResourceVersion || metav1.HasAnnotation(after.ObjectMeta, "a") {
		t.Errorf("the pod has changed: %+v", after.ObjectMeta)
	}
}
