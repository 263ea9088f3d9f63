// Package differential_test runs upstream host-local and limpet-ipam as processes on the same
// input and compares their answers. The differences on purpose are listed in
// docs/use/host-local.md, and as data in differences_test.go.
package differential_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/limpet-io/limpet/test/cniexec"
	"github.com/limpet-io/limpet/test/programs"
)

var (
	binaries cniexec.Binaries
	netns    cniexec.NetNS // where both plugins run
)

func TestMain(m *testing.M) {
	code, err := cniexec.Alone(func() (int, error) { return buildAndRun(m) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare:", err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (int, error) {
	dir, err := os.MkdirTemp("", "limpet-differential-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binaries, err = cniexec.Build(context.Background(), "../..", dir, os.Getenv(programs.Var))
	if err != nil {
		return 0, err
	}
	if netns, err = cniexec.NewNetNS(); err != nil {
		return 0, err
	}
	return m.Run(), nil
}

// step is one verb for both plugins. In the configuration, $DIR stands for the plugin's own
// directory.
type step struct {
	verb, id, ifName, netns, args, conf string
}

func (s step) String() string {
	return fmt.Sprintf("%-6s id=%s if=%s args=%q conf=%s", s.verb, s.id, s.ifName, s.args, s.conf)
}

// outcome is an answer, with $DIR again for the directory.
type outcome struct {
	Exit         int
	Result       any    // of a success
	Code         uint   // of an error
	Msg, Details string // of an error
}

func (o outcome) failed() bool { return o.Exit != 0 }

// pair is host-local and limpet-ipam, each with a directory of its own.
type pair struct {
	t                   *testing.T
	hostLocal, limpet   string
	hostState, ourState string
	plain               string          // a configuration of this network that is in order
	attached            map[holder]bool // by an ADD that succeeded on both
}

func newPair(t *testing.T, plain string) *pair {
	dir := t.TempDir()
	return &pair{
		t: t, hostLocal: binaries.HostLocal(), limpet: binaries.Limpet, plain: plain, attached: map[holder]bool{},
		hostState: filepath.Join(dir, "host-local"), ourState: filepath.Join(dir, "limpet-ipam"),
	}
}

// ask runs a step on both.
func (p *pair) ask(s step) (theirs, ours outcome) {
	p.t.Helper()
	return p.run(p.hostLocal, p.hostState, s), p.run(p.limpet, p.ourState, s)
}

func (p *pair) run(plugin, dir string, s step) outcome {
	p.t.Helper()
	settings := `"logFile":"none",`
	if !strings.Contains(s.conf, "releaseDelay") {
		settings += `"releaseDelay":"0s",` // or else the order of addresses differs
	}
	call := cniexec.Call{
		Plugin: plugin, Verb: s.verb, Container: s.id, IfName: s.ifName, NetNS: s.netns, Args: s.args,
		Path: binaries.Path(), Stdin: []byte(strings.NewReplacer(`"dataDir":"$DIR"`, settings+`"dataDir":"`+dir+`"`, "$DIR", dir).Replace(s.conf)),
	}
	var a cniexec.Answer
	err := netns.In(func() (err error) {
		a, err = call.Run(p.t.Context())
		return err
	})
	if err != nil {
		p.t.Fatal(err)
	}
	o := outcome{Exit: a.Exit}
	out := bytes.ReplaceAll(a.Stdout, []byte(dir), []byte("$DIR"))
	var to any = &o.Result
	if o.failed() {
		to = &o
	}
	if len(out) == 0 && !o.failed() {
		return o
	}
	if err := json.Unmarshal(out, to); err != nil {
		p.t.Fatalf("%s: %s answered exit %d, %q, stderr %q: %v", s, plugin, a.Exit, a.Stdout, a.Stderr, err)
	}
	return o
}

// snapshot is a directory's files.
type snapshot map[string][]byte

func (p *pair) snapshot() snapshot {
	files := snapshot{}
	err := filepath.WalkDir(p.hostState, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[path], err = os.ReadFile(path)
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		p.t.Fatal(err)
	}
	return files
}

// restore takes host-local back to the snapshot.
func (p *pair) restore(s snapshot) {
	for path := range p.snapshot() {
		if _, keep := s[path]; !keep {
			if err := os.Remove(path); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	for path, data := range s {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
}
