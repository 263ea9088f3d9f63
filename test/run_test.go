// Package test_test checks the script that runs the tests of every module.
package test_test

import (
	"bufio"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// A stand-in for go: the module in test/cluster fails, the others pass.
const failingGo = `#!/bin/sh
case "$1 $PWD" in
list*) ;;
*/test/cluster) echo "--- FAIL: TestNodes (0.00s)"; echo "    nodes_test.go:9: no node"; echo "FAIL	example.com/nodes	0.1s"; exit 1 ;;
*) echo "ok	example.com/$(basename "$PWD")	0.1s" ;;
esac
`

// A stand-in for go: the end-to-end tests clean up when they are interrupted. A shell that opens a pipe can miss a signal that
// comes just before; wait misses none.
const waitingGo = `#!/bin/sh
case "$1 $PWD" in
list*) ;;
*/test/e2e) cat "$PWD/never" & trap 'kill $!; echo "cleaned up"; exit 1' INT; echo "cluster runs"; wait ;;
*) ;;
esac
`

func TestEveryModuleRunsAndFailuresComeLast(t *testing.T) {
	out, err := run(t, checkout(t, failingGo), "test").CombinedOutput()
	if err == nil {
		t.Error("the script passes although a module failed")
	}
	before, failures, _ := strings.Cut(string(out), "failures of test/cluster")
	if !strings.Contains(before, "example.com/e2e") || !strings.Contains(before, "example.com/release") {
		t.Errorf("the module after the failed one did not run:\n%s", out)
	}
	if !strings.Contains(failures, "TestNodes") || !strings.Contains(failures, "no node") {
		t.Errorf("the end does not tell which test failed and why:\n%s", out)
	}
}

// A stand-in for go: the first module has four packages, and each run of tests shows its arguments.
const tellingGo = `#!/bin/sh
case "$1" in
list) for p in pure raced server raced-server; do echo "$PWD/pkg/$p"; done ;;
*) echo "ran $(basename "$PWD"): $*" ;;
esac
`

// Each package runs once, with the race detector or without. What is long runs in the suite all alone.
func TestEachPackageRunsOnce(t *testing.T) {
	for suite, want := range map[string]map[string]string{
		"unit": {"pure": "-short", "raced": "-short -race", "server": "-short", "raced-server": "-short"},
		"all":  {"pure": "", "raced": "-race", "server": "", "raced-server": "-race"},
	} {
		root := checkout(t, tellingGo)
		out, _ := run(t, root, suite).CombinedOutput() // the parts that are no tests in Go are not here, and fail
		got := map[string]string{}
		for line := range strings.Lines(string(out)) {
			args, isRun := strings.CutPrefix(line, "ran "+filepath.Base(root)+": ")
			for word := range strings.FieldsSeq(args) {
				if name, isPackage := strings.CutPrefix(word, "./pkg/"); isRun && isPackage {
					if _, twice := got[name]; twice {
						t.Errorf("%s: %s ran twice", suite, name)
					}
					got[name] = flags(args, "-short", "-race")
				}
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: the packages ran with %v, want %v:\n%s", suite, got, want, out)
		}
	}
}

// flags returns those of some flags that a line of arguments has.
func flags(line string, of ...string) string {
	has := slices.DeleteFunc(of, func(flag string) bool { return !slices.Contains(strings.Fields(line), flag) })
	return strings.Join(has, " ")
}

// make cluster-down ends the cluster of make cluster-up, and clusters of other targets only when it
// is asked to. A demo, a test or a benchmark may run meanwhile.
func TestClusterDownEndsItsOwnCluster(t *testing.T) {
	for argument, want := range map[string]string{
		"":      "for name in limpet ;",
		"ALL=1": "for name in limpet demo e2e bench chart chaos upgrade flannel multus offline crio segment newcomer;",
	} {
		args := []string{"--no-print-directory", "--dry-run", "cluster-down"}
		if argument != "" {
			args = append(args, argument)
		}
		cmd := exec.Command("make", args...)
		cmd.Dir, cmd.Env = "..", append(os.Environ(), "MAKEFLAGS=")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("make cluster-down %s: %v, want %q in:\n%s", argument, err, want, out)
		}
	}
}

func TestAnInterruptLetsTheEndToEndTestsCleanUp(t *testing.T) {
	root := checkout(t, waitingGo)
	if err := syscall.Mkfifo(filepath.Join(root, "test", "e2e", "never"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := run(t, root, "test")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if lines.Text() == "cluster runs" {
			if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGINT); err != nil {
				t.Fatal(err)
			}
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 {
		t.Errorf("the interrupted script ends with %v, want exit status 130", err)
	}
	if !strings.Contains(said.String(), "cleaned up") {
		t.Errorf("the end-to-end tests were not interrupted:\n%s", said.String())
	}
}

// checkout writes the script, folders of all modules and a stand-in for go into a new directory.
func checkout(t *testing.T, stub string) string {
	t.Helper()
	script, err := os.ReadFile("run.sh")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for file, text := range map[string]string{
		"go": stub, "test/run.sh": string(script), "test/race.txt": "./pkg/raced # why\n./pkg/raced-server all # why\n",
		"pkg/server/main_test.go": "testenv.Main()", "pkg/raced-server/main_test.go": "testenv.MainWith()", "cmd/x": "", "internal/x": "", "test/autoscalers/x": "", "test/certmanager/x": "", "test/cluster/x": "", "test/console/x": "", "test/e2e/x": "", "release/x": "", "release/chart/install/x": "",
	} {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func run(t *testing.T, root, suite string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(root, "test", "run.sh"), suite)
	cmd.Env = append(os.Environ(), "GO="+filepath.Join(root, "go"))
	return cmd
}
