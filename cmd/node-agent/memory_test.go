package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"
	podsv1alpha1 "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/limpet-io/limpet/internal/testenv"
	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// aFullNode has many pods, each with an environment. It serves them as the kubelet and as the runtime.
type aFullNode struct {
	podsv1alpha1.UnimplementedPodsServer
	runtimev1.UnimplementedRuntimeServiceServer
	pods []*corev1.Pod
}

func (n aFullNode) ListPods(context.Context, *podsv1alpha1.ListPodsRequest) (*podsv1alpha1.ListPodsResponse, error) {
	answer := &podsv1alpha1.ListPodsResponse{}
	for _, p := range n.pods {
		data, err := p.Marshal()
		if err != nil {
			return nil, err
		}
		answer.Pods = append(answer.Pods, data)
	}
	return answer, nil
}

func (n aFullNode) ListPodSandbox(context.Context, *runtimev1.ListPodSandboxRequest) (*runtimev1.ListPodSandboxResponse, error) {
	answer := &runtimev1.ListPodSandboxResponse{}
	for _, p := range n.pods {
		answer.Items = append(answer.Items, &runtimev1.PodSandbox{
			Id: "c-" + p.Name, Metadata: &runtimev1.PodSandboxMetadata{Namespace: p.Namespace, Name: p.Name, Uid: string(p.UID)}, Annotations: p.Annotations,
		})
	}
	return answer, nil
}

// BenchmarkMemory measures the resident memory of the agent on a node with 250 pods, by source of pods.
func BenchmarkMemory(b *testing.B) {
	node := aFullNode{}
	for i := range 250 {
		p := testenv.APod(fmt.Sprint("web-", i)).On("n1").With(reservation.RetainAnnotation, "10").With("kubernetes.io/config.source", "api").Pod
		p.UID = types.UID(fmt.Sprint("uid-", i))
		for v := range 50 {
			p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: fmt.Sprint("NAME_", v), Value: strings.Repeat("x", 40)})
		}
		node.pods = append(node.pods, p)
		inAPI := p.DeepCopy()
		env.Create(b, inAPI)
	}
	kubelet := listenOnSocket(b, func(s *grpc.Server) { podsv1alpha1.RegisterPodsServer(s, node) })
	runtime := listenOnSocket(b, func(s *grpc.Server) { runtimev1.RegisterRuntimeServiceServer(s, node) })
	binary := filepath.Join(b.TempDir(), "limpet-agent")
	build := exec.CommandContext(b.Context(), "go", "build", "-tags=grpcnotrace", "-trimpath", "-ldflags=-s -w", "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	for _, source := range []string{"api", "kubelet", "runtime"} {
		b.Run(source, func(b *testing.B) {
			for b.Loop() {
				state, address := filepath.Join(b.TempDir(), "state"), testenv.FreeAddress(b)
				fill(b, state, node.pods)
				cmd := exec.CommandContext(b.Context(), binary, "--state-dir="+state, "--address="+address, "--pods="+source, "--audit-period=10s",
					"--kubelet-pods-socket="+kubelet, "--runtime-endpoint="+runtime, "--plugin=", "--cni-conf-dir="+b.TempDir())
				cmd.Env = append(os.Environ(), "NODE_NAME=n1", "KUBECONFIG="+kubeconfig(b), "GOMEMLIMIT=48MiB", "GOGC=50") // as in deploy/daemonset
				if err := cmd.Start(); err != nil {
					b.Fatal(err)
				}
				audited(b, "http://"+address+"/metrics", 3)
				reportMemory(b, cmd.Process.Pid)
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			}
		})
	}
}

// audited waits for a number of audits.
func audited(t testing.TB, url string, audits int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		text := get(t, url)
		if m := regexp.MustCompile(`limpet_agent_step_seconds_count\{step="audit"\} (\d+)`).FindStringSubmatch(text); m != nil {
			if n, _ := strconv.Atoi(m[1]); n >= audits {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("no %d audits: %s", audits, text)
		}
		<-time.NewTimer(time.Second).C
	}
}

// fill stores an attachment for each pod.
func fill(t testing.TB, state string, pods []*corev1.Pod) {
	t.Helper()
	err := persistence.New(persistence.Options{Dir: state}).Update(t.Context(), func(tx *persistence.Tx) error {
		addr := netip.MustParseAddr("10.1.0.2")
		for _, p := range pods {
			err := tx.PutAttachment(reservation.Attachment{
				ID:    reservation.AttachmentID{Network: "net", ContainerID: "c-" + p.Name, IfName: "eth0"},
				Owner: reservation.Owner{Network: "net", Namespace: p.Namespace, Pod: p.Name, IfName: "eth0"},
				UID:   string(p.UID), Addresses: []netip.Addr{addr}, AnnotationsSeen: true, Retain: 10 * time.Minute,
			})
			if err != nil {
				return err
			}
			addr = addr.Next()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// reportMemory reports the resident memory of a process in MiB: the highest so far, the present one, and which part of it
// is the process's own, of files (the binary, the state) and shared.
func reportMemory(b *testing.B, pid int) {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for _, field := range []struct{ name, unit string }{
		{"VmHWM", "MiB-highest"}, {"VmRSS", "MiB"}, {"RssAnon", "MiB-own"}, {"RssFile", "MiB-files"}, {"RssShmem", "MiB-shared"},
	} {
		m := regexp.MustCompile(field.name + `:\s+(\d+) kB`).FindStringSubmatch(string(status))
		if m == nil {
			b.Fatalf("%s is missing in %s", field.name, status)
		}
		kib, err := strconv.Atoi(m[1])
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(kib)/1024, field.unit)
	}
}
