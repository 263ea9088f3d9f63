package plugin_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostEntered bounds the files that a reader of an everyday ADD has to open. docs/operate/runs/size.md says why it is no less.
const mostEntered = 34

const module = "github.com/limpet-io/limpet/"

// An ADD of a pod that asks for nothing, on a node where another pod runs. A file counts if the ADD runs a statement in it
// that a call of VERSION does not run: the start of the process is left aside.
func TestAnAddEntersFewFiles(t *testing.T) {
	dir := t.TempDir()
	covered := filepath.Join(dir, "limpet-ipam")
	build := exec.CommandContext(t.Context(), "go", "build", "-cover", "-covermode=count", "-coverpkg="+module+"...", "-o", covered, "./cmd/ipam-plugin")
	build.Dir, build.Env = "../..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	c := conf(t.TempDir(), "1.1.0")
	c["runtimeConfig"] = map[string]any{"io.kubernetes.cri.pod-annotations": map[string]string{"kubernetes.io/config.source": "api"}}
	started := entered(t, covered, call{verb: "VERSION", container: "a", conf: c})
	entered(t, covered, call{verb: "ADD", container: "first", netns: "/run/netns/first", args: pod("first", "u1"), conf: c})
	added := entered(t, covered, call{verb: "ADD", container: "second", netns: "/run/netns/second", args: pod("second", "u2"), conf: c})
	var files []string
	for block := range added {
		if file, _, _ := strings.Cut(block, ":"); !started[block] && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	slices.Sort(files)
	t.Logf("%d files:\n%s", len(files), strings.Join(files, "\n"))
	if len(files) > mostEntered {
		t.Errorf("an everyday ADD enters %d files, more than %d", len(files), mostEntered)
	}
}

// entered runs a verb, and returns the blocks of statements that it ran.
func entered(t *testing.T, plugin string, c call) map[string]bool {
	t.Helper()
	c.plugin, c.covered = plugin, t.TempDir()
	if a := c.run(t); a.exit != 0 {
		t.Fatalf("%s: %s", c.verb, a.stdout)
	}
	profile := filepath.Join(c.covered, "profile")
	if out, err := exec.CommandContext(t.Context(), "go", "tool", "covdata", "textfmt", "-i="+c.covered, "-o="+profile).CombinedOutput(); err != nil {
		t.Fatalf("read coverage: %v\n%s", err, out)
	}
	f, err := os.Open(profile)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	ran := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); { // file.go:1.2,3.4 statements count
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[2] != "0" && strings.HasPrefix(fields[0], module) {
			ran[strings.TrimPrefix(fields[0], module)] = true
		}
	}
	return ran
}
