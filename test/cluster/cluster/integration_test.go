package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/cluster/cluster"
	"github.com/limpet-io/limpet/test/cluster/image"
	"github.com/limpet-io/limpet/test/cluster/snapshot"
)

// programs builds the harness and what runs in pods, and returns their directory.
func programs(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short was given, and this starts clusters for minutes; make test-all runs it")
	}
	if os.Geteuid() != 0 {
		t.Skip("root is needed to make nodes of namespaces, mounts and cgroups; make test-all insists on root")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", dir+"/", "../cmd/limpet-cluster", "../cmd/echoserver")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return dir
}

// unchanged checks at the end of the test that the machine is as it was. What dies
// slowly gets a few seconds.
func unchanged(t *testing.T) {
	t.Helper()
	before, err := snapshot.Take()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		var changes []string
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
			after, err := snapshot.Take()
			if err != nil {
				t.Error(err)
				return
			}
			if changes = snapshot.Changes(before, after); len(changes) == 0 {
				return
			}
		}
		t.Errorf("the machine is not as it was:\n%s", strings.Join(changes, "\n"))
	})
}

// until asks until there is no objection.
func until(t *testing.T, limit time.Duration, what string, objection func(context.Context) error) {
	t.Helper()
	var err error
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if err = objection(t.Context()); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

// plugNetwork gives every node a pod network in the way of host-local, since nothing
// else is installed on these clusters.
func plugNetwork(t *testing.T, c *cluster.Cluster) {
	t.Helper()
	client, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range c.Nodes() {
		node, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		type object = map[string]any
		var ranges [][]object
		for _, cidr := range node.Spec.PodCIDRs {
			ranges = append(ranges, []object{{"subnet": cidr}})
		}
		conflist, err := json.Marshal(object{"cniVersion": "1.1.0", "name": "test", "plugins": []object{{
			"type": "ptp", "ipam": object{"type": "host-local", "ranges": ranges, "routes": []object{{"dst": "0.0.0.0/0"}}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(c.Disk(name), "etc/cni/net.d/10-test.conflist"), conflist, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func runPod(t *testing.T, c *cluster.Cluster, name, node string) *corev1.Pod {
	t.Helper()
	client, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	until(t, 30*time.Second, "create pod", func(ctx context.Context) error { // its service account may be late
		_, err := client.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{
				NodeName:   node,
				Containers: []corev1.Container{{Name: "echo", Image: "limpet.test/echo:1", ImagePullPolicy: corev1.PullNever}},
			},
		}, metav1.CreateOptions{})
		return err
	})
	return awaitPod(t, c, name, "")
}

// awaitPod waits until the pod is Ready in a container other than the given one.
func awaitPod(t *testing.T, c *cluster.Cluster, name, notContainer string) *corev1.Pod {
	t.Helper()
	client, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	var pod *corev1.Pod
	until(t, time.Minute, "wait for pod "+name, func(ctx context.Context) error {
		var err error
		if pod, err = client.CoreV1().Pods("default").Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		if s := pod.Status.ContainerStatuses; len(s) != 1 || !s[0].Ready || s[0].ContainerID == notContainer {
			return fmt.Errorf("not ready: %+v", s)
		}
		return nil
	})
	return pod
}

// answer calls the pod from its node by the address that it has.
func answer(t *testing.T, c *cluster.Cluster, pod *corev1.Pod) {
	t.Helper()
	for _, ip := range pod.Status.PodIPs {
		until(t, 20*time.Second, "call pod", func(ctx context.Context) error {
			// /proc/1/exe of the pod is the client, too; the node has no other.
			out, err := c.Exec(ctx, pod.Spec.NodeName, "sh", "-c", "$(ls -d /run/containerd/io.containerd.runtime.v2.task/k8s.io/*/rootfs/echoserver | head -1) get http://"+net.JoinHostPort(ip.IP, "8080"))
			if err != nil {
				return err
			}
			if !strings.Contains(string(out), "name="+pod.Name+" ") {
				return fmt.Errorf("answer %q", out)
			}
			return nil
		})
	}
}

func bootID(t *testing.T, c *cluster.Cluster, node string) string {
	t.Helper()
	out, err := c.Exec(t.Context(), node, "cat", "/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func TestLifeOfACluster(t *testing.T) {
	bin := programs(t)
	unchanged(t)
	archive := filepath.Join(t.TempDir(), "images.tar")
	if err := os.Link(filepath.Join(bin, "echoserver"), filepath.Join(bin, "pause")); err != nil {
		t.Fatal(err)
	}
	if err := image.Write(archive, []image.Image{
		{Name: "limpet.test/pause:1", Files: []string{filepath.Join(bin, "pause")}},
		{Name: "limpet.test/echo:1", Files: []string{filepath.Join(bin, "echoserver")}},
	}); err != nil {
		t.Fatal(err)
	}
	const name = "life"
	t.Cleanup(func() {
		if err := cluster.Down(name); err != nil {
			t.Error(err)
		}
	})
	began := time.Now()
	c, err := cluster.Up(t.Context(), cluster.Config{Name: name, Self: filepath.Join(bin, "limpet-cluster"), Images: []string{archive}, Progress: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	plugNetwork(t, c)
	if err := c.WaitReady(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	t.Logf("three nodes are Ready after %s", time.Since(began))

	// From here on as another program would.
	if c, err = cluster.Attach(name); err != nil {
		t.Fatal(err)
	}
	pod := runPod(t, c, "echo", "n2")
	answer(t, c, pod)
	t.Run("a killed pause process costs the pod its sandbox", func(t *testing.T) { killPause(t, c, pod) })
	t.Run("a node that lost its power comes back with its disk", func(t *testing.T) { powerCut(t, c, pod) })
	t.Run("services stop and start one by one", func(t *testing.T) { stopServices(t, c) })
	t.Run("components stop and start one by one", func(t *testing.T) { stopComponents(t, c) })
	t.Run("a second cluster of the name is refused", func(t *testing.T) {
		if _, err := cluster.Up(t.Context(), cluster.Config{Name: name}); err == nil {
			t.Error("Up() is content, want an error")
		}
	})
}

func killPause(t *testing.T, c *cluster.Cluster, pod *corev1.Pod) {
	before := awaitPod(t, c, pod.Name, "").Status.ContainerStatuses[0].ContainerID
	if err := c.KillPause(t.Context(), pod.Spec.NodeName, string(pod.UID)); err != nil {
		t.Fatal(err)
	}
	answer(t, c, awaitPod(t, c, pod.Name, before))
}

func powerCut(t *testing.T, c *cluster.Cluster, pod *corev1.Pod) {
	node := pod.Spec.NodeName
	before, container := bootID(t, c, node), awaitPod(t, c, pod.Name, "").Status.ContainerStatuses[0].ContainerID
	if _, err := c.Exec(t.Context(), node, "touch", "/var/kept", "/run/lost"); err != nil {
		t.Fatal(err)
	}
	if err := c.PowerOff(node); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), node, "true"); err == nil {
		t.Error("a node without power runs programs")
	}
	if err := c.PowerOn(node); err != nil {
		t.Fatal(err)
	}
	if err := c.PowerOn(node); err == nil {
		t.Error("a node that is on was booted again")
	}
	answer(t, c, awaitPod(t, c, pod.Name, container))
	if after := bootID(t, c, node); after == before || after == bootID(t, c, "n1") {
		t.Errorf("boot ID is %s, as before or as that of another node", after)
	}
	if _, err := c.Exec(t.Context(), node, "test", "-e", "/var/kept", "-a", "!", "-e", "/run/lost"); err != nil {
		t.Errorf("want /var/kept to be there and /run/lost not: %v", err)
	}
}

func stopServices(t *testing.T, c *cluster.Cluster) {
	for _, service := range []string{"kube-proxy", "kubelet", "containerd"} {
		if err := c.StopService(t.Context(), "n1", service); err != nil {
			t.Fatal(err)
		}
		if running(c, "n1", service) {
			t.Errorf("%s runs", service)
		}
		if err := c.StartService(t.Context(), "n1", service); err != nil {
			t.Fatal(err)
		}
		if !running(c, "n1", service) {
			t.Errorf("%s does not run", service)
		}
	}
	if err := c.StopService(t.Context(), "n1", "sshd"); err == nil {
		t.Error("a service that is none was stopped")
	}
	if err := c.StopService(t.Context(), "n9", "kubelet"); err == nil {
		t.Error("a service of a node that is none was stopped")
	}
}

func running(c *cluster.Cluster, name, service string) bool {
	for _, s := range c.Status() {
		if s.Name == name {
			return s.PID != 0 && (service == "" || s.Services[service])
		}
	}
	return false
}

func stopComponents(t *testing.T, c *cluster.Cluster) {
	for _, k := range []cluster.Component{cluster.Scheduler, cluster.ControllerManager, cluster.APIServer, cluster.Etcd} {
		if err := c.StopComponent(k); err != nil {
			t.Fatal(err)
		}
		if running(c, string(k), "") {
			t.Errorf("%s runs", k)
		}
	}
	client, err := c.Client()
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []cluster.Component{cluster.Etcd, cluster.APIServer} {
		if err := c.StartComponent(k); err != nil {
			t.Fatal(err)
		}
	}
	until(t, time.Minute, "wait for the API server", func(ctx context.Context) error {
		_, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		return err
	})
	for _, k := range []cluster.Component{cluster.ControllerManager, cluster.Scheduler} {
		if err := c.StartComponent(k); err != nil {
			t.Fatal(err)
		}
	}
}
