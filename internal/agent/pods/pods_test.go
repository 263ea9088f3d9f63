package pods_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/agent/plan"
	"github.com/limpet-io/limpet/internal/agent/pods"
	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// source is what the sources have in common.
type source interface {
	Run(ctx context.Context) error
	Pods(ctx context.Context) (plan.PodList, bool, error)
}

// start runs a source until the test ends.
func start(t *testing.T, s source) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

// shows waits until a source knows exactly these pods, by name and requested retention.
func shows(t *testing.T, s source, want map[string]string) plan.PodList {
	t.Helper()
	var list plan.PodList
	testenv.Eventually(t, func() error {
		l, known, err := s.Pods(t.Context())
		if err != nil || !known {
			return fmt.Errorf("known %t: %w", known, err)
		}
		list = l
		got := map[string]string{}
		for _, p := range l.Items {
			got[p.Namespace+"/"+p.Name+" "+string(p.UID)] = p.Annotations[reservation.RetainAnnotation]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
	return list
}

// TestKubelet follows pods of the kubelet, and forgets their environment.
func TestKubelet(t *testing.T) {
	path := socket(t)
	asks := func(minutes string) *corev1.Pod {
		return pod("web-0", "api", map[string]string{reservation.RetainAnnotation: minutes})
	}
	static := pod("proxy", "file", nil)
	k := &kubelet{pods: []*corev1.Pod{static, asks("10")}}
	stop := serve(t, path, func(s *grpc.Server) { podsv1alpha1.RegisterPodsServer(s, k) })
	from := pods.NewKubelet(path, clock.RealClock{}, testr.New(t))
	start(t, from)
	list := shows(t, from, map[string]string{"shop/web-0 uid-web-0": "10", "shop/proxy uid-proxy": ""})
	if list.FromCreation || list.Containers != nil {
		t.Errorf("the kubelet shows live annotations and no containers: %+v", list)
	}
	if text := fmt.Sprint(list); strings.Contains(text, "secret") || strings.Contains(text, "config.seen") {
		t.Errorf("more than needed is kept: %s", text)
	}
	late := pod("late", "api", nil)
	k.has(static, asks("20"), late)
	shows(t, from, map[string]string{"shop/web-0 uid-web-0": "20", "shop/proxy uid-proxy": "", "shop/late uid-late": ""})
	k.has(static, asks("20"))
	shows(t, from, map[string]string{"shop/web-0 uid-web-0": "20", "shop/proxy uid-proxy": ""})

	stop() // the kubelet ends, and meanwhile the last known pods stay
	shows(t, from, map[string]string{"shop/web-0 uid-web-0": "20", "shop/proxy uid-proxy": ""})

	// A kubelet that has started knows static pods before it knows those of the API server.
	again := &kubelet{pods: []*corev1.Pod{static}}
	serve(t, path, func(s *grpc.Server) { podsv1alpha1.RegisterPodsServer(s, again) })
	testenv.Eventually(t, func() error {
		again.mu.Lock()
		defer again.mu.Unlock()
		if again.lists == 0 {
			return errors.New("no list")
		}
		return nil
	})
	shows(t, from, map[string]string{"shop/web-0 uid-web-0": "20", "shop/proxy uid-proxy": ""})
	other := pod("web-1", "api", nil)
	again.has(static, other)
	shows(t, from, map[string]string{"shop/web-1 uid-web-1": "", "shop/proxy uid-proxy": ""})
}

// TestKubeletWithoutPodsAPI says why no pods are known.
func TestKubeletWithoutPodsAPI(t *testing.T) {
	path := socket(t)
	from := pods.NewKubelet(path, clock.RealClock{}, testr.New(t))
	if pods.Listens(t.Context(), path) {
		t.Error("a server listens on a socket that does not exist")
	}
	start(t, from)
	testenv.Eventually(t, func() error {
		_, known, err := from.Pods(t.Context())
		if known || err == nil || !strings.Contains(err.Error(), "list pods of the kubelet") {
			return fmt.Errorf("known %t: %w", known, err)
		}
		return nil
	})
	serve(t, path, func(s *grpc.Server) {}) // a server of another service
	if !pods.Listens(t.Context(), path) {
		t.Error("no server listens")
	}
}

// TestRuntime lists sandboxes, those that ended included, with the annotations of their creation.
func TestRuntime(t *testing.T) {
	path := socket(t)
	sandbox := func(id, name string, attempt uint32, state runtimev1.PodSandboxState) *runtimev1.PodSandbox {
		return &runtimev1.PodSandbox{
			Id: id, State: state, CreatedAt: time.Now().UnixNano(), RuntimeHandler: "runc",
			Metadata:    &runtimev1.PodSandboxMetadata{Namespace: "shop", Name: name, Uid: "uid-" + name, Attempt: attempt},
			Labels:      map[string]string{"io.kubernetes.pod.name": name},
			Annotations: map[string]string{reservation.RetainAnnotation: "10", "kubernetes.io/config.source": "api"},
		}
	}
	r := &runtime{sandboxes: []*runtimev1.PodSandbox{
		sandbox("c1", "web-0", 0, runtimev1.PodSandboxState_SANDBOX_NOTREADY), sandbox("c2", "web-0", 1, runtimev1.PodSandboxState_SANDBOX_READY),
		sandbox("c3", "web-1", 0, runtimev1.PodSandboxState_SANDBOX_READY),
	}}
	stop := serve(t, path, func(s *grpc.Server) { runtimev1.RegisterRuntimeServiceServer(s, r) })
	from, err := pods.NewRuntime(path)
	if err != nil {
		t.Fatal(err)
	}
	start(t, from)
	list := shows(t, from, map[string]string{"shop/web-0 uid-web-0": "10", "shop/web-1 uid-web-1": "10"})
	if diff := cmp.Diff(map[string]bool{"c1": true, "c2": true, "c3": true}, list.Containers); diff != "" || !list.FromCreation {
		t.Errorf("from creation %t, containers (-want +got):\n%s", list.FromCreation, diff)
	}
	stop()
	testenv.Eventually(t, func() error {
		if _, known, err := from.Pods(t.Context()); known || err == nil {
			return errors.New("a runtime that ended answers")
		}
		return nil
	})
	serve(t, path, func(s *grpc.Server) { runtimev1.RegisterRuntimeServiceServer(s, &runtime{}) })
	if list := shows(t, from, map[string]string{}); list.Containers == nil {
		t.Error("a runtime without sandboxes knows that there are none")
	}
}

func TestSocketPath(t *testing.T) {
	for endpoint, want := range map[string]string{
		"/run/containerd/containerd.sock": "/run/containerd/containerd.sock", "unix:///run/crio/crio.sock": "/run/crio/crio.sock",
		"tcp://127.0.0.1:1": "", "run/s": "", "": "", "unix://run/s": "",
	} {
		got, err := pods.SocketPath(endpoint)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", endpoint, got, err)
		}
	}
}
