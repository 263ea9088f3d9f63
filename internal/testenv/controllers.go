package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/limpet-io/limpet/test/programs"
)

// StartControllers runs the kube-controller-manager with some of its controllers, each as the user that it is in a
// cluster, until the test ends. They serve the objects of all tests that there are.
func (e *Env) StartControllers(t testing.TB, names string) {
	t.Helper()
	e.startProgram(t, "kube-controller-manager", "--kubeconfig="+e.Kubeconfig(t, "system:kube-controller-manager"),
		"--controllers="+names, "--use-service-account-credentials", "--leader-elect=false", "--secure-port=0", "--v=2")
}

// startProgram runs a program until the test ends or stop is called.
func (e *Env) startProgram(t testing.TB, name string, args ...string) (stop func()) {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), name+".log"))
	if err != nil {
		t.Fatal(err)
	}
	path, err := programs.Find(e.server.BinaryAssetsDirectory, name)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...) //nolint:noctx // it is killed below, by its PID
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	stop = sync.OnceFunc(func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Errorf("kill %s: %v", name, err)
		}
		_ = cmd.Wait() // it was killed, and says so
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%s:\n%s", name, text[max(0, len(text)-10_000):])
		}
	})
	t.Cleanup(stop)
	return stop
}
