package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	rbacv1 "k8s.io/api/rbac/v1"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
	"github.com/limpet-io/limpet/test/programs"
)

// aKubelet has one pod, which asks for a reservation of so many minutes.
type aKubelet struct {
	podsv1alpha1.UnimplementedPodsServer
	minutes *atomic.Int32
}

func (k aKubelet) ListPods(context.Context, *podsv1alpha1.ListPodsRequest) (*podsv1alpha1.ListPodsResponse, error) {
	pod := testenv.APod("web-0").On("n1").With("kubernetes.io/config.source", "api").
		With(reservation.RetainAnnotation, fmt.Sprint(k.minutes.Load())).Pod
	pod.UID = "known-to-the-node"
	data, err := pod.Marshal()
	return &podsv1alpha1.ListPodsResponse{Pods: [][]byte{data}}, err
}

// aRuntime has the sandbox of one pod.
type aRuntime struct {
	runtimev1.UnimplementedRuntimeServiceServer
}

func (aRuntime) ListPodSandbox(context.Context, *runtimev1.ListPodSandboxRequest) (*runtimev1.ListPodSandboxResponse, error) {
	return &runtimev1.ListPodSandboxResponse{Items: []*runtimev1.PodSandbox{{
		Id: "c", Metadata: &runtimev1.PodSandboxMetadata{Namespace: "default", Name: "web-0", Uid: "known-to-the-node"},
		Annotations: map[string]string{reservation.RetainAnnotation: "10"},
	}}}, nil
}

// listenOnSocket serves gRPC on a socket until the test ends.
func listenOnSocket(t testing.TB, register func(*grpc.Server)) (socket string) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	register(s)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return socket
}

// retained waits until the state says how long the addresses of web-0 are reserved.
func retained(t *testing.T, state string, want time.Duration) {
	t.Helper()
	store := persistence.New(persistence.Options{Dir: state})
	testenv.Eventually(t, func() error {
		return store.View(t.Context(), func(tx *persistence.Tx) error {
			a, _, err := tx.Attachment(reservation.AttachmentID{Network: "net", ContainerID: "c", IfName: "eth0"})
			if err == nil && a.Retain != want {
				err = fmt.Errorf("retain %s, want %s", a.Retain, want)
			}
			return err
		})
	})
}

// TestPodsOfTheKubelet has a pod that only the kubelet knows. A change of its annotation reaches the state.
func TestPodsOfTheKubelet(t *testing.T) {
	k := aKubelet{minutes: &atomic.Int32{}}
	k.minutes.Store(10)
	socket := listenOnSocket(t, func(s *grpc.Server) { podsv1alpha1.RegisterPodsServer(s, k) })
	state, address := filepath.Join(t.TempDir(), "state"), testenv.FreeAddress(t)
	attach(t, state, "known-to-the-node")
	startAgent(t, "--state-dir="+state, "--address="+address, "--kubelet-pods-socket="+socket) // auto
	retained(t, state, 10*time.Minute)
	k.minutes.Store(20)
	retained(t, state, 20*time.Minute)
	if got := get(t, "http://"+address+"/metrics"); !strings.Contains(got, `limpet_agent_pods_source{source="kubelet"} 1`) {
		t.Error("the metrics do not say that the kubelet is the source of pods")
	} else if !strings.Contains(got, `program="limpet-agent",version=`) {
		t.Error("the metrics do not say which version runs")
	}
}

// TestPodsOfTheRuntime has a pod that only the runtime knows.
func TestPodsOfTheRuntime(t *testing.T) {
	socket := listenOnSocket(t, func(s *grpc.Server) { runtimev1.RegisterRuntimeServiceServer(s, aRuntime{}) })
	state := filepath.Join(t.TempDir(), "state")
	attach(t, state, "known-to-the-node")
	startAgent(t, "--state-dir="+state, "--address="+testenv.FreeAddress(t), "--pods=runtime", "--runtime-endpoint=unix://"+socket)
	retained(t, state, 10*time.Minute)
}

// TestPodsFromTheNodeNeedNoRight builds the manifests with each component, and looks for a right to read pods.
func TestPodsFromTheNodeNeedNoRight(t *testing.T) {
	kubectl, err := programs.Find(os.Getenv(testenv.AssetsVar), "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	for component, flag := range map[string]string{"": "", "pods-from-kubelet": "--pods=kubelet", "pods-from-runtime": "--pods=runtime"} {
		t.Run(component, func(t *testing.T) {
			dir := t.TempDir()
			deploy, err := filepath.Rel(dir, filepath.Join(root, "deploy"))
			if err != nil {
				t.Fatal(err)
			}
			text := "resources: [" + deploy + "/daemonset]\n"
			if component != "" {
				text += "components: [" + deploy + "/" + component + "]\n"
			}
			if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := exec.CommandContext(t.Context(), kubectl, "kustomize", dir).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if !strings.Contains(string(out), flag) {
				t.Errorf("the DaemonSet has no %s", flag)
			}
			if got := readsPods(t, string(out)); got != (component == "") {
				t.Errorf("the right to read pods: %t", got)
			}
		})
	}
}

// readsPods reports whether a role of the manifests allows to read pods.
func readsPods(t *testing.T, manifests string) bool {
	t.Helper()
	reads := false
	for text := range strings.SplitSeq(manifests, "\n---\n") {
		var role rbacv1.ClusterRole // a Role has the same rules
		if err := yaml.Unmarshal([]byte(text), &role); err != nil {
			t.Fatal(err)
		}
		for _, r := range role.Rules {
			reads = reads || slices.ContainsFunc(r.Resources, func(of string) bool { return of == "*" || strings.HasPrefix(of, "pods") })
		}
	}
	return reads
}
