package testenv

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// StartScheduler runs the kube-scheduler, with its defaults but for some plugins, until the test ends or stop is
// called. It places whatever pods there are.
func (e *Env) StartScheduler(t testing.TB, without ...string) (stop func()) {
	t.Helper()
	return e.startProgram(t, "kube-scheduler", "--config="+e.schedulerConfig(t, without), "--secure-port=0", "--v=2")
}

// schedulerConfig writes the configuration of a scheduler that lacks some plugins.
func (e *Env) schedulerConfig(t testing.TB, without []string) string {
	t.Helper()
	type disabled struct {
		Name string `json:"name"`
	}
	list := []disabled{}
	for _, name := range without {
		list = append(list, disabled{name})
	}
	text, err := json.Marshal(map[string]any{
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"clientConnection": map[string]any{"kubeconfig": e.Kubeconfig(t, "")}, "leaderElection": map[string]any{"leaderElect": false},
		"profiles": []any{map[string]any{"schedulerName": corev1.DefaultSchedulerName, "plugins": map[string]any{"multiPoint": map[string]any{"disabled": list}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Kubeconfig writes a file with which a process reaches the API server, as the user of
// that name or, without one, with every permission.
func (e *Env) Kubeconfig(t testing.TB, user string) string {
	t.Helper()
	return e.kubeconfig(t, user, e.Config.Host)
}

// KubeconfigThrough is Kubeconfig for a program that reaches the API server through a relay.
func (e *Env) KubeconfigThrough(t testing.TB, user string, r *Relay) string {
	t.Helper()
	return e.kubeconfig(t, user, "https://"+r.Address)
}

func (e *Env) kubeconfig(t testing.TB, user, server string) string {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["test"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: e.Config.CAData}
	c.AuthInfos["test"] = &clientcmdapi.AuthInfo{
		ClientCertificateData: e.Config.CertData, ClientKeyData: e.Config.KeyData, Impersonate: user,
	}
	c.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	c.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// WithRoom gives the node room for so many pods and CPUs.
func (n Node) WithRoom(pods, cpus int64) Node {
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourcePods:   *resource.NewQuantity(pods, resource.DecimalSI),
		corev1.ResourceCPU:    *resource.NewQuantity(cpus, resource.DecimalSI),
		corev1.ResourceMemory: resource.MustParse("1Gi"),
	}
	n.Status.Capacity = n.Status.Allocatable
	return n
}

// Asking makes the pod's container request CPUs.
func (p Pod) Asking(cpus int64) Pod {
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(cpus, resource.DecimalSI)}
	return p
}
