package offline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/cluster/cluster"
	"github.com/limpet-io/limpet/test/cniexec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// The nodes that restart: one with limpet-ipam, and one with host-local in its place.
const limpet, hostLocal = "n2", "n3"

// TestPodsOfEveryKindKeepTheirAddressesOffline restarts two nodes with thirty pods each while no API server runs. The pods
// ask for nothing. Those of limpet-ipam answer under the addresses that Kubernetes, DNS and Services know.
func TestPodsOfEveryKindKeepTheirAddressesOffline(t *testing.T) {
	if testing.Short() {
		t.Skip("-short was given, and this takes minutes; make test-all runs it")
	}
	b := up(t)
	useHostLocal(t, b)
	caches := []*Cache{cacheOf(t, b, limpet, "7002"), cacheOf(t, b, hostLocal, "7003")}
	before := map[string][]corev1.Pod{}
	for _, node := range []string{limpet, hostLocal} {
		start(t, b, node)
	}
	for _, node := range []string{limpet, hostLocal} {
		before[node] = ready(t, b, node)
	}
	for _, c := range caches {
		if err := c.Disconnect(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Cluster.KillComponent(cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	for _, node := range []string{limpet, hostLocal} {
		if err := errors.Join(b.Cluster.PowerOff(node), b.Cluster.PowerOn(node)); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range []string{limpet, hostLocal} {
		run := started(t, b, node, before[node])
		kept := answering(t, b, node, before[node])
		t.Logf("%s: %d pods run again without an API server, %d of %d answer under their addresses", node, run, kept, PodsOfNode)
		if node == limpet && kept != PodsOfNode {
			t.Errorf("%d of %d pods kept their addresses, want all", kept, PodsOfNode)
		}
	}
	if err := b.Cluster.StartComponent(cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	for _, c := range caches {
		c.Connect()
	}
	same := 0
	for i, p := range ready(t, b, limpet) {
		if p.UID == before[limpet][i].UID && p.Status.PodIP == before[limpet][i].Status.PodIP {
			same++
		}
	}
	t.Logf("%s: Kubernetes shows %d of %d pods with the addresses of before", limpet, same, PodsOfNode)
	if same != PodsOfNode {
		t.Errorf("Kubernetes shows %d of %d pods with the addresses of before, want all", same, PodsOfNode)
	}
}

// up starts a cluster. No pod of Limpet's controller runs on the node whose plugin is replaced.
func up(t *testing.T) *bed.Bed {
	t.Helper()
	b, err := bed.UpWith(t.Context(), "offline", "../../..", t.Logf, func(ctx context.Context, b *bed.Bed) error {
		if _, err := b.Kubectl(ctx, "cordon", hostLocal); err != nil {
			return err
		}
		return b.Install(ctx, filepath.Join(b.Repo, "deploy/own-network"))
	})
	if err != nil {
		t.Fatal(err)
	}
	b.DownAfter(t)
	return b
}

// useHostLocal puts host-local in the place of limpet-ipam, in a network that containerd reads first.
func useHostLocal(t *testing.T, b *bed.Bed) {
	t.Helper()
	dir := filepath.Join(b.Cluster.Disk(hostLocal), "etc/cni/net.d")
	ours, err := os.ReadFile(filepath.Join(dir, "10-limpet.conflist"))
	if err != nil {
		t.Fatal(err)
	}
	var conf struct {
		CNIVersion string           `json:"cniVersion"`
		Name       string           `json:"name"`
		Plugins    []map[string]any `json:"plugins"`
	}
	if err := json.Unmarshal(ours, &conf); err != nil {
		t.Fatal(err)
	}
	conf.Name = "plain"
	conf.Plugins[0]["ipam"].(map[string]any)["type"] = "host-local"
	plain, err := json.Marshal(conf)
	if err != nil {
		t.Fatal(err)
	}
	temporary := filepath.Join(dir, "plain.tmp") // containerd notices only renames within the directory
	if err := errors.Join(os.WriteFile(temporary, plain, 0o600), os.Rename(temporary, filepath.Join(dir, "00-plain.conflist"))); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Kubectl(t.Context(), "uncordon", hostLocal); err != nil {
		t.Fatal(err)
	}
}

// cacheOf puts a cache between the kubelet of a node and the API server.
func cacheOf(t *testing.T, b *bed.Bed, node, port string) *Cache {
	t.Helper()
	path := filepath.Join(b.Cluster.Disk(node), "etc/kubernetes/kubelet.kubeconfig")
	file, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	kubelet, err := clientcmd.NewDefaultClientConfig(*file, nil).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	outside, err := b.Cluster.RESTConfig()
	if err != nil {
		t.Fatal(err)
	}
	inside, err := url.Parse(kubelet.Host)
	if err != nil {
		t.Fatal(err)
	}
	kubelet.Host, kubelet.QPS = outside.Host, -1
	control, err := cniexec.OpenNetNS(b.Cluster.ControlNetNS())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = control.Close() })
	var listener net.Listener
	address := net.JoinHostPort(inside.Hostname(), port)
	err = control.In(func() (err error) {
		listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Serve(listener, kubelet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	for _, known := range file.Clusters {
		known.Server, known.CertificateAuthorityData = "http://"+address, nil
	}
	err = clientcmd.WriteToFile(*file, path)
	err = errors.Join(err, b.Cluster.StopService(t.Context(), node, "kubelet"), b.Cluster.StartService(t.Context(), node, "kubelet"))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// start creates the pods of a node.
func start(t *testing.T, b *bed.Bed, node string) {
	t.Helper()
	manifest, static := podsOf(node)
	if _, err := b.KubectlIn(t.Context(), manifest, "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	for name, pod := range static {
		if err := os.WriteFile(filepath.Join(b.Cluster.Disk(node), "etc/kubernetes/manifests", name+".json"), []byte(pod), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// ready waits until all pods of a node are Ready, and returns them in the order of their names.
func ready(t *testing.T, b *bed.Bed, node string) (all []corev1.Pod) {
	t.Helper()
	await(t, "the pods of "+node, func(ctx context.Context) (bool, string) {
		list, err := b.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: Label + "=" + node})
		if err != nil {
			return false, err.Error()
		}
		all = list.Items
		missing := PodsOfNode - len(all)
		for i := range all {
			if !bed.Ready(&all[i]) || all[i].Spec.NodeName != node {
				missing++
			}
		}
		return missing == 0, fmt.Sprintf("%d of %d pods are missing", missing, PodsOfNode)
	})
	return all
}

// started waits until as many containers run on a node as before, which is known to containerd alone.
func started(t *testing.T, b *bed.Bed, node string, before []corev1.Pod) (run int) {
	t.Helper()
	await(t, "the pods of "+node+" to run again", func(ctx context.Context) (bool, string) {
		out, err := b.Cluster.Exec(ctx, node, "sh", "-c", "ps -e -o args= | grep -c '^/echoserver'")
		_, _ = fmt.Sscan(string(out), &run)
		return run >= len(before), fmt.Sprintf("%d run %v", run, err)
	})
	return run
}

// answering returns how many pods answer on their node under all addresses that they had before.
func answering(t *testing.T, b *bed.Bed, node string, before []corev1.Pod) int {
	t.Helper()
	there, err := cniexec.OpenNetNS(b.Cluster.NodeNetNS(node))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = there.Close() }()
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (c net.Conn, err error) {
			return c, there.In(func() (err error) {
				c, err = new(net.Dialer).DialContext(ctx, network, address)
				return err
			})
		},
	}}
	var kept atomic.Int64
	var asked sync.WaitGroup
	for _, p := range before {
		asked.Go(func() {
			if bed.Await(t.Context(), 20*time.Second, "an answer of "+p.Name, func(ctx context.Context) (bool, string) { return answers(ctx, &client, p), "" }) == nil {
				kept.Add(1)
			}
		})
	}
	asked.Wait()
	return int(kept.Load())
}

// answers reports whether a pod itself answers under all its addresses.
func answers(ctx context.Context, client *http.Client, p corev1.Pod) bool {
	for _, ip := range p.Status.PodIPs {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(ip.IP, "8080"), nil)
		if err != nil {
			return false
		}
		response, err := client.Do(request)
		if err != nil {
			return false
		}
		text, err := io.ReadAll(response.Body)
		_ = response.Body.Close() // it was read
		if err != nil || !strings.HasPrefix(string(text), "name="+p.Name+" ") {
			return false
		}
	}
	return len(p.Status.PodIPs) > 0
}

func await(t *testing.T, what string, ask func(context.Context) (bool, string)) {
	t.Helper()
	if err := bed.Await(t.Context(), 5*time.Minute, what, ask); err != nil {
		t.Fatal(err)
	}
}
