// Package crio_test rebuilds pods on a node whose runtime is CRI-O, in a cluster whose other nodes run containerd.
package crio_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/test/cluster/cluster"
	"github.com/limpet-io/limpet/test/cluster/nodeinit"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/e2e/bed"
)

// node is the one that runs CRI-O.
const node = "n3"

// replicas is the number of pods in testdata/pods.yaml.
const replicas = 3

// broken is a network that CRI-O reads before the others, and that limpet-ipam refuses.
const broken = `{"cniVersion":"1.1.0","name":"broken","plugins":[{"type":"ptp","ipam":{"type":"limpet-ipam","ranges":[[{"subnet":"10.9.0.0/99"}]]}}]}`

func TestPodsOfCRIOKeepTheirAddresses(t *testing.T) {
	b := up(t)
	s := &suite{b: b}
	s.kubectl(t, "apply", "-f", "testdata/pods.yaml")
	s.pods = s.ready(t, nil)
	s.step(t, "delete", func() { s.kubectl(t, "delete", "pod", "-l", "app=kept") })
	s.step(t, "force delete", func() { s.kubectl(t, "delete", "pod", "-l", "app=kept", "--force", "--grace-period=0") })
	s.step(t, "rollout", func() { s.kubectl(t, "rollout", "restart", "statefulset", "kept") })
	s.step(t, "restart of CRI-O", func() {
		s.must(t, b.Cluster.StopService(t.Context(), node, nodeinit.CRIO), b.Cluster.StartService(t.Context(), node, nodeinit.CRIO))
		s.kubectl(t, "delete", "pod", "-l", "app=kept")
	})
	s.step(t, "a network that limpet-ipam refuses", func() { s.refuse(t); s.kubectl(t, "delete", "pod", "-l", "app=kept") })
	s.step(t, "CRI-O without its storage", func() { s.loseStorage(t) })
	s.step(t, "restart of the node", func() { s.must(t, b.Cluster.PowerOff(node), b.Cluster.PowerOn(node)) })
}

func up(t *testing.T) *bed.Bed {
	t.Helper()
	if testing.Short() {
		t.Skip("-short was given, and this takes minutes; make test-all runs it")
	}
	b, err := bed.Up(t.Context(), "crio", "../../..", t.Logf, func(c *cluster.Config) { c.CRIO = []string{node} })
	if err != nil {
		t.Fatal(err)
	}
	b.DownAfter(t)
	duplicates := b.WatchDuplicates(t.Context())
	t.Cleanup(func() {
		if found := duplicates.Stop(); len(found) > 0 {
			t.Errorf("two running pods had the same address: %v", found)
		}
	})
	if err := b.Probe(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

// suite has the pods as they were last seen.
type suite struct {
	b    *bed.Bed
	pods map[string]corev1.Pod
}

// step does something to all pods, and compares their addresses before and after.
func (s *suite) step(t *testing.T, name string, do func()) {
	t.Helper()
	before, lines := s.pods, s.log(t)
	do()
	s.pods = s.ready(t, before)
	for name, was := range before {
		if is := s.pods[name]; is.Status.PodIP != was.Status.PodIP {
			t.Errorf("%s was %s, is %s", name, was.Status.PodIP, is.Status.PodIP)
		}
	}
	verbs := map[string]int{}
	for _, l := range s.log(t)[len(lines):] {
		_, verb, _ := strings.Cut(l, `"verb":"`)
		verb, _, _ = strings.Cut(verb, `","network`)
		verbs[strings.Replace(verb, `","outcome":"`, " ", 1)]++
	}
	t.Logf("%s: kept; limpet-ipam says %v", name, verbs)
}

// ready waits until all pods answer. Each must have another life than before.
func (s *suite) ready(t *testing.T, before map[string]corev1.Pod) map[string]corev1.Pod {
	t.Helper()
	pods := map[string]corev1.Pod{}
	s.await(t, "all pods to answer", func(ctx context.Context) (bool, string) {
		list, err := s.b.Client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{LabelSelector: "app=kept"})
		if err != nil {
			return false, err.Error()
		}
		clear(pods)
		for _, p := range list.Items {
			was, is := before[p.Name]
			if !bed.Ready(&p) || p.DeletionTimestamp != nil || is && p.UID == was.UID && restarts(p) == restarts(was) {
				return false, p.Name + " is not ready in another life"
			}
			answer, err := s.b.Call(ctx, node, p.Status.PodIP+":8080")
			if err != nil || !strings.Contains(answer, "name="+p.Name+" ") {
				return false, fmt.Sprint(p.Name, ": ", answer, err)
			}
			pods[p.Name] = p
		}
		return len(pods) == replicas, fmt.Sprint(len(pods), " pods")
	})
	return pods
}

func restarts(p corev1.Pod) int32 { return p.Status.ContainerStatuses[0].RestartCount }

// refuse starts CRI-O with a network that cannot be used. The node is not ready until it is gone.
func (s *suite) refuse(t *testing.T) {
	t.Helper()
	before := s.count(t, `"verb":"STATUS","outcome":"failed"`)
	file := filepath.Join(s.b.Cluster.Disk(node), "etc/cni/net.d/00-broken.conflist")
	s.must(t, s.b.Cluster.StopService(t.Context(), node, nodeinit.CRIO), os.WriteFile(file, []byte(broken), 0o600),
		s.b.Cluster.StartService(t.Context(), node, nodeinit.CRIO))
	s.await(t, "STATUS to fail", func(context.Context) (bool, string) {
		now := s.count(t, `"verb":"STATUS","outcome":"failed"`)
		return now > before, fmt.Sprint(now, " times")
	})
	s.must(t, os.Remove(file), s.b.Cluster.WaitReady(t.Context(), 3*time.Minute))
}

// loseStorage lets CRI-O start without knowing of any pod. Its garbage collection ends their attachments.
func (s *suite) loseStorage(t *testing.T) {
	t.Helper()
	c, before := s.b.Cluster, s.count(t, `"verb":"DEL","outcome":"reserved"`)
	s.must(t, c.StopService(t.Context(), node, "kubelet"), c.StopService(t.Context(), node, nodeinit.CRIO))
	// What is mounted cannot be removed. CRI-O reads what it has from the index.
	_, err := c.Exec(t.Context(), node, "sh", "-c", "rm /var/lib/containers/storage/overlay-containers/*.json")
	s.must(t, err, c.StartService(t.Context(), node, nodeinit.CRIO))
	s.await(t, "garbage collection to end attachments", func(context.Context) (bool, string) {
		ended := s.count(t, `"verb":"DEL","outcome":"reserved"`) - before
		return ended >= replicas, fmt.Sprint(ended, " ended")
	})
	s.must(t, c.StartService(t.Context(), node, "kubelet"))
}

// log returns the lines that limpet-ipam wrote on the node.
func (s *suite) log(t *testing.T) []string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(s.b.Cluster.Disk(node), "var/log/limpet/ipam.log"))
	s.must(t, err)
	return strings.SplitAfter(strings.TrimSuffix(string(data), "\n"), "\n")
}

func (s *suite) count(t *testing.T, words string) int {
	t.Helper()
	return strings.Count(strings.Join(s.log(t), ""), words)
}

func (s *suite) kubectl(t *testing.T, args ...string) {
	t.Helper()
	_, err := s.b.Kubectl(t.Context(), args...)
	s.must(t, err)
}

func (s *suite) must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func (s *suite) await(t *testing.T, what string, ask func(context.Context) (bool, string)) {
	t.Helper()
	s.must(t, bed.Await(t.Context(), 4*time.Minute, what, ask))
}
