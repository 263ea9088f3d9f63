package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/test/cluster/nodeinit"
)

// PowerOn boots a node: its disk is as it was left, its boot ID is a new one.
func (c *Cluster) PowerOn(node string) error {
	i, err := c.index(node)
	if err != nil {
		return err
	}
	if c.procs.pid(node) != 0 {
		return fmt.Errorf("%s is on", node)
	}
	all, err := hierarchies()
	if err != nil {
		return err
	}
	raw := make([]byte, 16)
	if _, err := rand.Read(raw); err != nil {
		return fmt.Errorf("make boot ID: %w", err)
	}
	config := nodeinit.Config{
		Name: node, Disk: c.disk(node), Images: c.imageDir(), CgroupsV1: v1Names(all),
		Runtime:     c.runtime(node),
		Binaries:    map[string]string{"kubernetes": c.dirs["kubernetes"], c.runtime(node): c.dirs[c.runtime(node)]},
		BootID:      fmt.Sprintf("%x-%x-%x-%x-%x", raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:]),
		KubeletArgs: []string{"--node-ip=" + c.config.families(nodeIP4(i), nodeIP6(i)), "--v=2"},
	}
	data, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("encode node configuration: %w", err)
	}
	path := filepath.Join(stateDir(c.Name), node+".json")
	if err := os.WriteFile(path, data, 0o644); err != nil {
		return fmt.Errorf("write node configuration: %w", err)
	}
	if err := c.boot(node, path); err != nil {
		return err
	}
	return c.awaitRoot(node, config.BootID)
}

// awaitRoot waits until a node's first process has left the machine's files for its
// own: a program that is run on the node before would see the machine's.
func (c *Cluster) awaitRoot(node, bootID string) error {
	const limit = 2 * time.Minute
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		pid := c.procs.pid(node)
		if pid == 0 {
			return c.procs.ended(node)
		}
		now, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/proc/sys/kernel/random/boot_id", pid))
		if err == nil && strings.TrimSpace(string(now)) == bootID {
			return nil
		}
	}
	return fmt.Errorf("%s has no file system of its own after %s, see %s", node, limit, filepath.Join(c.logDir(), node+".log"))
}

// runtime returns the name of what runs the containers of a node.
func (c *Cluster) runtime(node string) string {
	if slices.Contains(c.config.CRIO, node) {
		return nodeinit.CRIO
	}
	return nodeinit.Containerd
}

// index returns the number of a node.
func (c *Cluster) index(node string) (int, error) {
	i := slices.Index(c.Nodes(), node)
	if i < 0 {
		return 0, fmt.Errorf("node %q: there are %s", node, strings.Join(c.Nodes(), ", "))
	}
	return i + 1, nil
}

// boot starts the node's first process by way of one that enters the cgroups, says
// the PID and ends.
func (c *Cluster) boot(node, config string) error {
	log, err := os.OpenFile(filepath.Join(c.logDir(), node+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("open log of %s: %w", node, err)
	}
	defer log.Close()
	cmd := exec.Command(c.config.Self, "node-spawn", c.Name, node, config, log.Name())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, log
	if err := closeOnExec(); err != nil {
		return err
	}
	if err := inNamespace(nodeNetNS(c.Name, node), cmd.Run); err != nil {
		return fmt.Errorf("boot %s, see %s: %w", node, log.Name(), err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out.String()))
	if err != nil {
		return fmt.Errorf("boot %s: read PID: %w", node, err)
	}
	return c.procs.remember(node, pid)
}

// PowerOff takes a node's power: everything on it is gone at once, its disk stays.
func (c *Cluster) PowerOff(node string) error {
	if _, err := c.index(node); err != nil {
		return err
	}
	if err := c.procs.end(node, unix.SIGKILL, time.Second); err != nil {
		return err
	}
	return killCgroup(c.Name, node)
}

// firstProcess returns the PID of a node's first process.
func (c *Cluster) firstProcess(node string) (int, error) {
	if _, err := c.index(node); err != nil {
		return 0, err
	}
	pid := c.procs.pid(node)
	if pid == 0 {
		return 0, fmt.Errorf("%s is off", node)
	}
	return pid, nil
}

// Exec runs a program on a node and returns what it printed.
func (c *Cluster) Exec(ctx context.Context, node string, argv ...string) ([]byte, error) {
	if len(argv) == 0 {
		return nil, errors.New("exec: want a program to run")
	}
	pid, err := c.firstProcess(node)
	if err != nil {
		return nil, err
	}
	enter := []string{"-t", strconv.Itoa(pid), "-m", "-p", "-n", "-u", "-i", "-C", "--", "env", "PATH=/limpet/kubernetes:/limpet/containerd:/limpet/crio:/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, argv...)...)
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(exit.Stderr))
		}
		return out, fmt.Errorf("run %s on %s: %w", argv[0], node, err)
	}
	return out, nil
}

// KillPause kills the process that holds a pod's sandbox, as a crash of it would.
func (c *Cluster) KillPause(ctx context.Context, node, podUID string) error {
	ids, err := c.Exec(ctx, node, "ctr", "-n", "k8s.io", "containers", "list", "-q", "labels.\"io.kubernetes.pod.uid\"=="+podUID+",labels.\"io.cri-containerd.kind\"==sandbox")
	if err != nil {
		return err
	}
	id := strings.TrimSpace(string(ids))
	if id == "" || strings.ContainsAny(id, "\n ") {
		return fmt.Errorf("pod %s on %s: want one sandbox, found %q", podUID, node, id)
	}
	_, err = c.Exec(ctx, node, "ctr", "-n", "k8s.io", "tasks", "kill", "-s", "SIGKILL", id)
	return err
}
