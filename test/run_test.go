// Package test_test checks the script that runs the tests of every module.
package test_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A stand-in for go: the module in test/cluster fails, the others pass.
const failingGo = `#!/bin/sh
case "$1 $PWD" in
list*) ;;
*/test/cluster) echo "--- FAIL: TestNodes (0.00s)"; echo "FAIL	example.com/nodes	0.1s"; exit 1 ;;
*) echo "ok	example.com/$(basename "$PWD")	0.1s" ;;
esac
`

func TestEveryModuleRunsAndFailuresComeLast(t *testing.T) {
	script, err := os.ReadFile("run.sh")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for file, text := range map[string]string{"go": failingGo, "test/run.sh": string(script), "test/cluster/x": "", "test/e2e/x": "", "release/x": ""} {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(root, "test", "run.sh"), "unit", "e2e")
	cmd.Env = append(os.Environ(), "GO="+filepath.Join(root, "go"))
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Error("the script passes although a module failed")
	}
	run, failures, _ := strings.Cut(string(out), "failures of test/cluster")
	if !strings.Contains(run, "example.com/e2e") || !strings.Contains(run, "example.com/release") {
		t.Errorf("the module after the failed one did not run:\n%s", out)
	}
	if !strings.Contains(failures, "TestNodes") {
		t.Errorf("the end does not name the failed test:\n%s", out)
	}
}
