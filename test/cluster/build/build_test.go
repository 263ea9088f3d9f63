package build_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	testcluster "github.com/limpet-io/limpet/test/cluster"
	"github.com/limpet-io/limpet/test/cluster/build"
)

func builder(t *testing.T) *build.Builder {
	return &build.Builder{Cache: t.TempDir(), Modules: testcluster.Modules, Progress: t.Logf}
}

func TestHashTellsComponentsAndFlagsApart(t *testing.T) {
	b := builder(t)
	seen := map[string]string{}
	for _, name := range build.Names() {
		for _, flags := range []string{"", " -X main.version=2"} {
			hash, err := b.Hash(t.Context(), name, flags)
			if err != nil {
				t.Fatal(err)
			}
			again, err := b.Hash(t.Context(), name, flags)
			if err != nil {
				t.Fatal(err)
			}
			if hash != again {
				t.Errorf("the hash of %s%s is now %s, now %s", name, flags, hash, again)
			}
			if other, taken := seen[hash]; taken {
				t.Errorf("%s%s and %s have the same hash", name, flags, other)
			}
			seen[hash] = name + flags
		}
	}
}

func TestHashTellsGoVersionsApart(t *testing.T) {
	b := builder(t)
	before, err := b.Hash(t.Context(), "cni", "")
	if err != nil {
		t.Fatal(err)
	}
	// A stand-in for another Go, found first in PATH.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte("#!/bin/sh\necho go9.9.9; echo linux; echo amd64\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	after, err := b.Hash(t.Context(), "cni", "")
	if err != nil {
		t.Fatal(err)
	}
	if before == after {
		t.Error("another version of Go would reuse the binaries of this one")
	}
}

func TestPruneRemovesOnlyWhatNobodyUses(t *testing.T) {
	cache := t.TempDir()
	now := time.Now()
	for name, age := range map[string]time.Duration{
		"etcd-new": 0, "etcd-recent": build.Kept - time.Hour, "etcd-old": build.Kept + time.Hour, "cni-old": build.Kept + time.Hour,
	} {
		dir := filepath.Join(cache, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	if err := build.Prune(filepath.Join(cache, "etcd-new"), now); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(cache)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if diff := cmp.Diff([]string{"cni-old", "etcd-new", "etcd-recent"}, left); diff != "" {
		t.Errorf("left in the cache (-want +got):\n%s", diff)
	}
}

// A build that waits for another one says so, and can give up.
func TestWaitingForAnotherBuildCanBeInterrupted(t *testing.T) {
	cache := t.TempDir()
	if err := os.Mkdir(filepath.Join(cache, "build"), 0o755); err != nil {
		t.Fatal(err)
	}
	first := &build.Builder{Cache: cache}
	unlock, err := first.Lock(t.Context(), "etcd")
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	second := &build.Builder{Cache: cache, Progress: func(string, ...any) { interrupt() }}
	if _, err := second.Lock(ctx, "etcd"); !errors.Is(err, context.Canceled) {
		t.Errorf("the second build: %v", err)
	}
	unlock()
	unlock, err = second.Lock(t.Context(), "etcd")
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

// The build modules are no directories with a go.mod, because such cannot be
// embedded; so the usual `go mod tidy -diff` does not find them.
func TestBuildModulesAreTidy(t *testing.T) {
	if testing.Short() {
		t.Skip("-short was given, and this downloads modules; make test-all runs it")
	}
	for _, name := range build.Names() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			src, err := builder(t).Source(t.Context(), name)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(src) }) // a left-over in the temporary directory does no harm
			args := []string{"mod", "tidy", "-diff"}
			if name == "flannelplugin" { // its files for Windows do not go with the CNI library of its files for Linux
				args = append(args, "-e")
			}
			cmd := exec.CommandContext(t.Context(), "go", args...)
			cmd.Dir = src
			cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("go mod tidy -diff: %v\n%s", err, out)
			}
		})
	}
}

func TestBinariesSayTheVersionThatTheirModuleNames(t *testing.T) {
	for name, version := range build.Versions() {
		data, err := testcluster.Modules.ReadFile("modules/" + name + ".mod")
		if err != nil {
			t.Fatal(err)
		}
		main := mainModules[strings.TrimRight(name, "0123456789")]
		if !regexp.MustCompile(`(?m)^\s*(require )?` + regexp.QuoteMeta(main+" "+version) + `( |$)`).Match(data) {
			t.Errorf("%s.mod does not require %s %s", name, main, version)
		}
	}
}

var mainModules = map[string]string{
	"kubernetes": "k8s.io/kubernetes", "etcd": "go.etcd.io/etcd/server/v3",
	"containerd": "github.com/containerd/containerd/v2", "cni": "github.com/containernetworking/plugins",
	"flannel": "github.com/flannel-io/flannel", "flannelplugin": "github.com/containernetworking/plugins",
	"multus":  "gopkg.in/k8snetworkplumbingwg/multus-cni.v4",
	"coredns": "github.com/coredns/coredns",
	"crio":    "github.com/cri-o/cri-o",
}
