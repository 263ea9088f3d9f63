package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/limpet-io/limpet/internal/testenv"
)

// mounted are the directories of the host that the container of the agent may have.
var mounted = []string{"bin", "conf", "state", "netns", "log", "cni", "pods", "runtime"}

// TestEachMountIsWatched compares the mounts of the agent's container with the directories that the agent watches.
func TestEachMountIsWatched(t *testing.T) {
	root, err := testenv.Root()
	if err != nil {
		t.Fatal(err)
	}
	o, mounts := Default(), 0
	watched := o.directories()
	for _, file := range []string{"daemonset/daemonset.yaml", "pods-from-runtime/kustomization.yaml"} {
		text, err := os.ReadFile(filepath.Join(root, "deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`mountPath: ([^,}]+)`).FindAllStringSubmatch(string(text), -1) {
			mounts++
			within := func(dir string) bool { return dir == found[1] || strings.HasPrefix(dir, found[1]+"/") }
			if found[1] != "/host/boot_id" && !slices.ContainsFunc(watched, within) { // a file of the kernel
				t.Errorf("%s is mounted and not watched", found[1])
			}
		}
	}
	if mounts != len(mounted)+1 {
		t.Errorf("%d mounts, want those of %v and the boot ID", mounts, mounted)
	}
}

// TestTheAgentEndsWhenTheHostReplacesADirectory runs the agent with directories of the host mounted as in its container,
// and replaces one of them: the agent would go on with a directory that no other process sees.
func TestTheAgentEndsWhenTheHostReplacesADirectory(t *testing.T) {
	for name, replace := range map[string]func(dir string) error{
		"removed and made again": func(dir string) error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)) },
		"renamed":                func(dir string) error { return os.Rename(dir, dir+".old") },
		"its parent removed":     func(dir string) error { return os.RemoveAll(filepath.Dir(dir)) },
	} {
		for _, kind := range mounted {
			t.Run(name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				host, seen := t.TempDir(), t.TempDir()
				mounts := "set -e\n"
				for _, dir := range mounted {
					from, to := filepath.Join(host, dir, "of"), filepath.Join(seen, dir)
					if err := errors.Join(os.MkdirAll(from, 0o755), os.Mkdir(to, 0o755)); err != nil {
						t.Fatal(err)
					}
					mounts += "mount --bind " + from + " " + to + "\n"
				}
				address := testenv.FreeAddress(t)
				cmd := exec.Command("unshare", "--mount", "--propagation=private", "sh", "-c", mounts+`exec "$@"`, "sh", os.Args[0],
					"--plugin="+os.Args[0], "--cni-bin-dir="+filepath.Join(seen, "bin"), "--cni-conf-dir="+filepath.Join(seen, "conf"),
					"--state-dir="+filepath.Join(seen, "state"), "--netns-dir="+filepath.Join(seen, "netns"), "--address="+address,
					"--plugin-log="+filepath.Join(seen, "log", "ipam.log"), "--cni-results-dir="+filepath.Join(seen, "cni", "results"),
					"--kubelet-pods-socket="+filepath.Join(seen, "pods", "pods-api.sock"), "--runtime-endpoint="+filepath.Join(seen, "runtime", "containerd.sock"))
				cmd.Env = append(os.Environ(), agentVar+"=1", "NODE_NAME=n1", "KUBECONFIG="+kubeconfig(t))
				var log strings.Builder
				cmd.Stdout, cmd.Stderr = &log, &log
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				testenv.Eventually(t, func() error {
					if got := get(t, "http://"+address+"/readyz"); !strings.Contains(got, "ok") {
						return errors.New(got)
					}
					return nil
				})
				if err := replace(filepath.Join(host, kind, "of")); err != nil {
					t.Fatal(err)
				}
				select {
				case err := <-ended:
					if err == nil || !strings.Contains(log.String(), filepath.Join(seen, kind)) || !strings.Contains(log.String(), " was removed or renamed") {
						t.Errorf("the agent ended with %v:\n%s", err, log.String())
					}
				case <-time.After(time.Minute):
					_ = cmd.Process.Kill() // it ends, and the test has failed
					t.Errorf("the agent went on, until it was killed (%v):\n%s", <-ended, log.String())
				}
			})
		}
	}
}
