package skel_test

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/utils"

	"github.com/limpet-io/limpet/internal/cni/skel"
)

const conf = `{"cniVersion":"1.1.0","name":"net"}`

// environment returns a complete environment, with changes.
func environment(changes map[string]string) func(string) string {
	env := map[string]string{
		"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c1", "CNI_NETNS": "/none", "CNI_IFNAME": "eth0", "CNI_PATH": "/opt", "CNI_ARGS": "A=B",
	}
	maps.Copy(env, changes)
	return func(name string) string { return env[name] }
}

// TestRun runs verbs with right and wrong environments and configurations.
func TestRun(t *testing.T) {
	coded := types.NewError(101, "coded", "")
	for name, tc := range map[string]struct {
		env   map[string]string
		stdin string
		fails error
		code  uint
		msg   string
		runs  bool
	}{
		"a call":                           {runs: true},
		"a DEL without a namespace":        {env: map[string]string{"CNI_COMMAND": "DEL", "CNI_NETNS": ""}, runs: true},
		"a GC needs no container":          {env: map[string]string{"CNI_COMMAND": "GC", "CNI_CONTAINERID": "", "CNI_IFNAME": "", "CNI_NETNS": ""}, runs: true},
		"a STATUS ignores a bad container": {env: map[string]string{"CNI_COMMAND": "STATUS", "CNI_CONTAINERID": "/"}, runs: true},
		"an unknown verb":                  {env: map[string]string{"CNI_COMMAND": "REMOVE"}, code: 4, msg: "unknown CNI_COMMAND: REMOVE"},
		"variables that are missing":       {env: map[string]string{"CNI_CONTAINERID": "", "CNI_PATH": ""}, code: 4, msg: "required env variables [CNI_CONTAINERID,CNI_PATH] missing"},
		"an ADD without a namespace":       {env: map[string]string{"CNI_NETNS": ""}, code: 4, msg: "CNI_NETNS"},
		"an ID that is a path":             {env: map[string]string{"CNI_CONTAINERID": "../x"}, code: 4, msg: "containerID"},
		"an interface that is a path":      {env: map[string]string{"CNI_IFNAME": "a/b"}, code: 4, msg: "interface name"},
		"its own namespace":                {env: map[string]string{"CNI_NETNS": "/proc/thread-self/ns/net"}, code: 8},
		"its own namespace, on purpose":    {env: map[string]string{"CNI_NETNS": "/proc/thread-self/ns/net", "CNI_NETNS_OVERRIDE": "True"}, runs: true},
		"DEL in its own namespace":         {env: map[string]string{"CNI_COMMAND": "DEL", "CNI_NETNS": "/proc/thread-self/ns/net"}, code: 8, runs: true},
		"no JSON":                          {stdin: "text", code: 6},
		"a name that is a number":          {stdin: `{"name":1}`, code: 6},
		"no name":                          {stdin: `{"cniVersion":"1.1.0"}`, code: 7, msg: "missing network name"},
		"a name that is a path":            {stdin: `{"cniVersion":"1.1.0","name":"../x"}`, code: 7},
		"a version from afar":              {stdin: `{"cniVersion":"9.0.0","name":"net"}`, code: 1, msg: "incompatible"},
		"no version means the first one":   {stdin: `{"name":"net"}`, runs: true},
		"CHECK before there was one":       {env: map[string]string{"CNI_COMMAND": "CHECK"}, stdin: `{"cniVersion":"0.3.1","name":"net"}`, code: 1, msg: "does not allow CHECK"},
		"CHECK of a version from afar":     {env: map[string]string{"CNI_COMMAND": "CHECK"}, stdin: `{"cniVersion":"9.0.0","name":"net"}`, code: 1, msg: "plugin version does not allow CHECK"},
		"CHECK between two versions":       {env: map[string]string{"CNI_COMMAND": "CHECK"}, stdin: `{"cniVersion":"0.5.0","name":"net"}`, code: 1, msg: "incompatible"},
		"CHECK of no version":              {env: map[string]string{"CNI_COMMAND": "CHECK"}, stdin: `{"cniVersion":"x","name":"net"}`, code: 6},
		"the first CHECK":                  {env: map[string]string{"CNI_COMMAND": "CHECK"}, stdin: `{"cniVersion":"0.4.0","name":"net"}`, runs: true},
		"GC before there was one":          {env: map[string]string{"CNI_COMMAND": "GC"}, stdin: `{"cniVersion":"1.0.0","name":"net"}`, code: 1, msg: "does not allow GC"},
		"STATUS before there was one":      {env: map[string]string{"CNI_COMMAND": "STATUS"}, stdin: `{"cniVersion":"1.0.0","name":"net"}`, code: 1, msg: "does not allow STATUS"},
		"a verb that fails with a code":    {fails: errors.Join(coded), code: 101, msg: "coded", runs: true},
		"a verb that fails":                {fails: errors.New("why"), code: 999, msg: "why", runs: true},
	} {
		t.Run(name, func(t *testing.T) {
			var ran *skel.CmdArgs
			verb := func(a *skel.CmdArgs) error { ran = a; return tc.fails }
			stdin := cmp.Or(tc.stdin, conf)
			p := skel.Process{Getenv: environment(tc.env), Stdin: strings.NewReader(stdin)}
			err := p.Run(skel.CNIFuncs{Add: verb, Del: verb, Check: verb, GC: verb, Status: verb}, "about")
			if code := codeOf(err); code != tc.code || (ran != nil) != tc.runs {
				t.Fatalf("code %d, ran: %t; want %d, %t: %v", code, ran != nil, tc.code, tc.runs, err)
			}
			if err != nil && !strings.Contains(err.Msg, tc.msg) {
				t.Errorf("message %q, want %q", err.Msg, tc.msg)
			}
			if ran != nil && (ran.Conf == nil || ran.Args != "A=B") {
				t.Errorf("the verb got %+v", ran)
			}
		})
	}
}

func codeOf(err *types.Error) uint {
	if err == nil {
		return 0
	}
	return err.Code
}

// TestRunWithoutAVerb prints help, and the versions.
func TestRunWithoutAVerb(t *testing.T) {
	for command, want := range map[string]string{"": "about\nCNI protocol versions supported: 0.1.0, ", "VERSION": `{"cniVersion":"1.1.0","supportedVersions":["0.1.0",`} {
		var out bytes.Buffer
		p := skel.Process{Getenv: environment(map[string]string{"CNI_COMMAND": command}), Stdout: &out, Stderr: &out}
		if err := p.Run(skel.CNIFuncs{}, "about"); err != nil || !strings.HasPrefix(out.String(), want) {
			t.Errorf("%q: %q, %v", command, out.String(), err)
		}
	}
}

// FuzzNames compares what names are allowed with the CNI library.
func FuzzNames(f *testing.F) {
	for _, s := range []string{"", "a", "-a", "a-b_c.9", "a/b", "a:b", ".", "..", "a b", "a\u0085b", "a\u2003b", "\xff", "abcdefghijklmno", "abcdefghijklmnop", "a\n", "ä"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, want := skel.ValidName(s), utils.ValidateContainerID(s) == nil; got != want {
			t.Errorf("name %q: %t, the library says %t", s, got, want)
		}
		if got, want := skel.WrongInterfaceName(s) == "", utils.ValidateInterfaceName(s) == nil; got != want {
			t.Errorf("interface %q: %t, the library says %t", s, got, want)
		}
	})
}
