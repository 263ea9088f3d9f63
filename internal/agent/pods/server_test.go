package pods_test

import (
	"context"
	"maps"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
)

// serve serves gRPC on a socket until the returned function is called or the test ends.
func serve(t *testing.T, socket string, register func(*grpc.Server)) (stop func()) {
	t.Helper()
	_ = os.Remove(socket) // a server that was stopped may have left it
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	register(s)
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }()
	stop = sync.OnceFunc(func() { s.Stop(); <-done })
	t.Cleanup(stop)
	return stop
}

// socket returns the path of a socket that does not exist yet.
func socket(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "s")
}

// kubelet serves PodsAPI as the kubelet does.
type kubelet struct {
	podsv1alpha1.UnimplementedPodsServer
	mu    sync.Mutex
	pods  []*corev1.Pod
	lists int // that were asked for
}

func (k *kubelet) ListPods(context.Context, *podsv1alpha1.ListPodsRequest) (*podsv1alpha1.ListPodsResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lists++
	answer := &podsv1alpha1.ListPodsResponse{}
	for _, p := range k.pods {
		data, err := p.Marshal()
		if err != nil {
			return nil, err
		}
		answer.Pods = append(answer.Pods, data)
	}
	return answer, nil
}

// has replaces the pods.
func (k *kubelet) has(pods ...*corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods = pods
}

// pod returns a pod as the kubelet shows it: with its environment, and with the source of its
// configuration.
func pod(name, source string, annotations map[string]string) *corev1.Pod {
	all := map[string]string{"kubernetes.io/config.source": source, "kubernetes.io/config.seen": "2026-01-01T00:00:00Z"}
	maps.Copy(all, annotations)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Annotations: all},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{
			Name: "app", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: "secret"}},
		}}},
	}
}

// runtime answers as a container runtime does. Only the method that the agent calls is there.
type runtime struct {
	runtimev1.UnimplementedRuntimeServiceServer
	sandboxes []*runtimev1.PodSandbox
}

func (r *runtime) ListPodSandbox(context.Context, *runtimev1.ListPodSandboxRequest) (*runtimev1.ListPodSandboxResponse, error) {
	return &runtimev1.ListPodSandboxResponse{Items: r.sandboxes}, nil
}
