package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/test/cniexec"
)

const (
	maxBinary = 4_300_000  // bytes, as README and design say
	maxPeak   = 12_000_000 // bytes
)

// TestTheBinaryIsSmall limits the size of the plugin, built like a release.
func TestTheBinaryIsSmall(t *testing.T) {
	info, err := os.Stat(build(t).Limpet)
	if err != nil {
		t.Fatal(err)
	}
	if info.Size() > maxBinary {
		t.Errorf("limpet-ipam has %d bytes, at most %d are allowed", info.Size(), maxBinary)
	}
}

// TestOneProcessNeedsLittleMemory limits the peak memory of each verb. A small parent process
// runs the plugin, see peakArgument.
func TestOneProcessNeedsLittleMemory(t *testing.T) {
	dir := t.TempDir()
	parent := filepath.Join(dir, "bench")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", parent, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	plugin := build(t).Limpet
	conf := fmt.Appendf(nil, `{"cniVersion":"1.1.0","name":"net","type":"ptp","ipam":{"dataDir":%q,"logFile":%q,"ranges":[[{"subnet":"10.1.0.0/16"}],[{"subnet":"fd00:1::/64"}]]},
		"runtimeConfig":{"io.kubernetes.cri.pod-annotations":{"io.kubernetes.cri/reserved-ip-duration":"10"}}}`, filepath.Join(dir, "state"), filepath.Join(dir, "ipam.log"))
	for _, verb := range []string{"VERSION", "STATUS", "ADD", "CHECK", "GC", "DEL"} {
		call := cniexec.Call{
			Plugin: parent, Verb: verb, Container: "c", IfName: "eth0", NetNS: "/some/where", Path: dir, Stdin: conf,
			Args: "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=web-0;K8S_POD_UID=u",
		}
		cmd := call.Command(t.Context())
		cmd.Args = append(cmd.Args, "peak-of", plugin)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v: %s%s", verb, err, out, stderr.String())
		}
		kib, err := strconv.Atoi(strings.TrimSpace(string(out)))
		if err != nil {
			t.Fatal(err)
		}
		if peak := kib << 10; peak > maxPeak {
			t.Errorf("%s took %d bytes of memory, at most %d are allowed", verb, peak, maxPeak)
		}
	}
}

func build(t *testing.T) cniexec.Binaries {
	t.Helper()
	dir := t.TempDir()
	b, err := cniexec.BuildLimpet(t.Context(), "../../..", dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
