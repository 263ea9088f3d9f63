package cluster_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// An Up may be interrupted, or die, at any moment. Each case waits for a sign of how
// far it has come.
func TestInterruptedUpLeavesNothing(t *testing.T) {
	bin := programs(t)
	harness := filepath.Join(bin, "limpet-cluster")
	const name = "halfway"
	tests := map[string]struct {
		sign   string
		signal syscall.Signal
	}{
		"interrupted while the API server starts": {sign: "/run/limpet-cluster/halfway/processes/kube-apiserver", signal: syscall.SIGINT},
		"told to end while nodes boot":            {sign: "/run/limpet-cluster/halfway/processes/n1", signal: syscall.SIGTERM},
		"killed while namespaces are made":        {sign: "/run/netns/limpet-halfway-n1", signal: syscall.SIGKILL},
		"killed while etcd starts":                {sign: "/run/limpet-cluster/halfway/logs/etcd.log", signal: syscall.SIGKILL},
		"killed while a node is started":          {sign: "/run/limpet-cluster/halfway/logs/n2.log", signal: syscall.SIGKILL},
		"killed while nodes register":             {sign: "/run/limpet-cluster/halfway/processes/n3", signal: syscall.SIGKILL},
	}
	for title, tc := range tests {
		t.Run(title, func(t *testing.T) {
			unchanged(t)
			var out bytes.Buffer
			up := exec.CommandContext(t.Context(), harness, "up", "--name", name)
			up.Stdout, up.Stderr = &out, &out
			if err := up.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- up.Wait() }()
			for there := false; !there; {
				select {
				case err := <-ended:
					t.Fatalf("up ended before there was a %s: %v\n%s", tc.sign, err, out.String())
				case <-time.After(time.Millisecond):
					_, err := os.Stat(tc.sign)
					there = err == nil
				}
			}
			if err := up.Process.Signal(tc.signal); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err == nil {
				t.Errorf("up ended well after %s", tc.signal)
			}
			if tc.signal != syscall.SIGKILL {
				return // it has cleaned up itself
			}
			for range 2 { // the second finds nothing to do
				if out, err := exec.CommandContext(t.Context(), harness, "down", "--name", name).CombinedOutput(); err != nil {
					t.Errorf("down: %v\n%s", err, out)
				}
			}
		})
	}
}
