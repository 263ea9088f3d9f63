package cluster_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/limpet-io/limpet/test/cluster/cluster"
)

// self is the limpet-cluster binary, built for these tests.
var self string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if len(os.Args) == 4 && os.Args[1] == "up" { // a test runs itself, to kill what starts a cluster
		_, err := cluster.Up(context.Background(), cluster.Config{Name: os.Args[2], Self: os.Args[3], Progress: func(string, ...any) {}})
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "limpet-cluster-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a left-over in the temporary directory does no harm
	self = filepath.Join(dir, "limpet-cluster")
	if out, err := exec.Command("go", "build", "-o", self, "../cmd/limpet-cluster").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build limpet-cluster: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// machine is what a cluster must leave as it found it.
type machine struct {
	Mounts, NetNS, Cgroups, Processes []string
	Sysctls                           map[string]string
	Links                             []string
}

func look(t *testing.T, name string) machine {
	t.Helper()
	m := machine{Sysctls: map[string]string{}}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); !strings.Contains(line, "nsfs") || strings.Contains(line, "limpet-"+name) {
			m.Mounts = append(m.Mounts, f[4])
		}
	}
	for _, glob := range []struct {
		pattern string
		into    *[]string
	}{
		{"/run/netns/limpet-" + name + "-*", &m.NetNS},
		{"/sys/fs/cgroup/*/limpet-cluster-" + name, &m.Cgroups},
		{"/sys/fs/cgroup/limpet-cluster-" + name, &m.Cgroups},
		{"/sys/class/net/*", &m.Links},
	} {
		found, err := filepath.Glob(glob.pattern)
		if err != nil {
			t.Fatal(err)
		}
		*glob.into = append(*glob.into, found...)
	}
	for _, s := range []string{
		"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "net/netfilter/nf_conntrack_max", "kernel/random/boot_id", "kernel/hostname",
	} {
		value, err := os.ReadFile("/proc/sys/" + s)
		if err == nil { // a module that is not loaded has no settings to change
			m.Sysctls[s] = strings.TrimSpace(string(value))
		}
	}
	m.Processes = processesOf(t, name)
	slices.Sort(m.Mounts)
	return m
}

// diff leaves out settings that a kernel module has brought which was loaded meanwhile.
func (m machine) diff(after machine) string {
	maps.DeleteFunc(after.Sysctls, func(name, _ string) bool { _, known := m.Sysctls[name]; return !known })
	return cmp.Diff(m, after)
}

// processesOf lists the processes that belong to a cluster by what they were told.
func processesOf(t *testing.T, name string) []string {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range all {
		line, err := os.ReadFile(f)
		if err == nil && (strings.Contains(string(line), "limpet-cluster/"+name) || strings.Contains(string(line), self)) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

func TestUpPowerAndDownLeaveTheMachineAsItWas(t *testing.T) {
	const name = "ctest"
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	before := look(t, name)
	c, err := cluster.Up(ctx, cluster.Config{Name: name, Nodes: 2, Self: self, Progress: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Down(name); err != nil { // a second time is no error
			t.Error(err)
		}
	})
	if during := look(t, name); len(during.NetNS) != 3 || len(during.Processes) == 0 {
		t.Errorf("the snapshot does not see the cluster: %d network namespaces, %d processes", len(during.NetNS), len(during.Processes))
	}
	bootID := func() string {
		out, err := c.Exec(ctx, "n1", "cat", "/proc/sys/kernel/random/boot_id")
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	first := bootID()
	if err := os.WriteFile(filepath.Join(c.Disk("n1"), "var", "kept"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := c.PowerOff("n1"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(ctx, "n1", "true"); err == nil {
		t.Error("a program ran on a node that is off")
	}
	if err := c.PowerOn("n1"); err != nil {
		t.Fatal(err)
	}
	if second := bootID(); second == first {
		t.Error("the node has the boot ID of before")
	}
	if _, err := c.Exec(ctx, "n1", "ls", "/var/kept"); err != nil {
		t.Errorf("the node's disk was not kept: %v", err)
	}
	attached, err := cluster.Attach(name)
	if err != nil {
		t.Fatal(err)
	}
	client, err := attached.Client()
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 2 || len(nodes.Items[0].Spec.PodCIDRs) != 2 {
		t.Errorf("want 2 nodes with pod CIDRs of both families, got %d: %v", len(nodes.Items), err)
	}
	if err := cluster.Down(name); err != nil {
		t.Fatal(err)
	}
	if diff := before.diff(look(t, name)); diff != "" {
		t.Errorf("the machine is not as it was (-before +after):\n%s", diff)
	}
}

func TestDownCleansUpAfterAnUpThatWasKilled(t *testing.T) {
	const name = "ckill"
	before := look(t, name)
	up := exec.Command(os.Args[0], "up", name, self)
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Down(name); err != nil {
			t.Error(err)
		}
	})
	state := filepath.Join("/run/limpet-cluster", name, "processes", "n1")
	deadline := time.Now().Add(2 * time.Minute)
	for {
		if _, err := os.Stat(state); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no node was started within 2 minutes")
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := up.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = up.Wait() // it was killed
	if err := cluster.Down(name); err != nil {
		t.Fatal(err)
	}
	if diff := before.diff(look(t, name)); diff != "" {
		t.Errorf("the machine is not as it was (-before +after):\n%s", diff)
	}
}

// A machine that restarted keeps the files of a cluster, and none of its processes.
func TestUpRemovesAClusterOfWhichNothingRuns(t *testing.T) {
	const name = "cleft"
	before := look(t, name)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the cluster is taken down again as soon as it starts
	left := filepath.Join("/run/limpet-cluster", name, "processes", "n1")
	if err := os.MkdirAll(filepath.Dir(left), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(left, []byte("1 0"), 0o644); err != nil {
		t.Fatal(err)
	}
	var told []string
	_, err := cluster.Up(ctx, cluster.Config{Name: name, Self: self, Progress: func(format string, args ...any) {
		told = append(told, fmt.Sprintf(format, args...))
	}})
	if err == nil || strings.Contains(err.Error(), "is there already") {
		t.Errorf("error %v, want that of the context", err)
	}
	if !slices.ContainsFunc(told, func(s string) bool { return strings.Contains(s, "former cluster") }) {
		t.Errorf("told %q, want that the former cluster is removed", told)
	}
	if diff := before.diff(look(t, name)); diff != "" {
		t.Errorf("the machine is not as it was (-before +after):\n%s", diff)
	}
}

func TestUpRefusesWhatCannotBe(t *testing.T) {
	cases := map[string]struct {
		config cluster.Config
		want   string
	}{
		"a name too long for interface names": {cluster.Config{Name: "much-too-long"}, "longer than 8 characters"},
		"more nodes than addresses":           {cluster.Config{Nodes: 10}, "from 1 to 9"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := cluster.Up(t.Context(), c.config)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Up() = %v, want an error with %q", err, c.want)
			}
		})
	}
}
