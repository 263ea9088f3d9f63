package skel_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	theirs "github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
	"github.com/google/go-cmp/cmp"

	"github.com/limpet-io/limpet/internal/machine"
	"github.com/limpet-io/limpet/internal/skel"
)

const netns = "/proc/self/ns/net"

// conf is a network configuration of a version.
func conf(version string) string { return `{"cniVersion":"` + version + `","name":"net","type":"t"}` }

// env is that of a verb about a container, with changes: "" takes a variable away.
func env(verb string, changes ...string) map[string]string {
	e := map[string]string{
		"CNI_COMMAND": verb, "CNI_CONTAINERID": "c1", "CNI_NETNS": "/nowhere", "CNI_IFNAME": "eth0", "CNI_PATH": "/opt/cni/bin", "CNI_ARGS": "A=B",
	}
	for _, c := range changes {
		name, value, _ := strings.Cut(c, "=")
		e[name] = value
	}
	return e
}

var cases = map[string]struct {
	env  map[string]string
	conf string
}{
	"ADD":                            {env("ADD"), conf("1.1.0")},
	"ADD of an old version":          {env("ADD"), conf("0.1.0")},
	"no version":                     {env("ADD"), `{"name":"net"}`},
	"DEL":                            {env("DEL"), conf("1.1.0")},
	"DEL without a namespace":        {env("DEL", "CNI_NETNS"), conf("1.1.0")},
	"CHECK":                          {env("CHECK"), conf("1.0.0")},
	"CHECK before there was one":     {env("CHECK"), conf("0.3.1")},
	"GC":                             {env("GC"), conf("1.1.0")},
	"GC without a container":         {env("GC", "CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS"), conf("1.1.0")},
	"GC before there was one":        {env("GC"), conf("1.0.0")},
	"STATUS":                         {env("STATUS"), conf("1.1.0")},
	"STATUS before there was one":    {env("STATUS"), conf("1.0.0")},
	"STATUS of a version to come":    {env("STATUS"), conf("9.0.0")},
	"STATUS of a version between":    {env("STATUS"), conf("1.0.9")},
	"ADD of a version to come":       {env("ADD"), conf("9.0.0")},
	"VERSION":                        {env("VERSION"), conf("1.1.0")},
	"VERSION alone":                  {map[string]string{"CNI_COMMAND": "VERSION"}, ""},
	"no verb":                        {env(""), conf("1.1.0")},
	"no such verb":                   {env("add"), conf("1.1.0")},
	"no such verb, no configuration": {env("add"), ""},
	"nothing but a verb":             {map[string]string{"CNI_COMMAND": "ADD"}, ""},
	"no namespace":                   {env("ADD", "CNI_NETNS"), conf("1.1.0")},
	"no path":                        {env("STATUS", "CNI_PATH"), conf("1.1.0")},
	"a bad container":                {env("ADD", "CNI_CONTAINERID=../x"), conf("1.1.0")},
	"a bad container, and no path":   {env("ADD", "CNI_CONTAINERID=-", "CNI_PATH"), conf("1.1.0")},
	"a container of dots inside":     {env("ADD", "CNI_CONTAINERID=0_.-z"), conf("1.1.0")},
	"a container beyond ASCII":       {env("ADD", "CNI_CONTAINERID=ä"), conf("1.1.0")},
	"a container of two lines":       {env("ADD", "CNI_CONTAINERID=a\n"), conf("1.1.0")},
	"a bad container in GC":          {env("GC", "CNI_CONTAINERID=../x"), conf("1.1.0")},
	"a long interface":               {env("ADD", "CNI_IFNAME=abcdefghijklmnop"), conf("1.1.0")},
	"an interface of dots":           {env("ADD", "CNI_IFNAME=.."), conf("1.1.0")},
	"an interface with a slash":      {env("DEL", "CNI_IFNAME=a/b"), conf("1.1.0")},
	"an interface with a blank":      {env("DEL", "CNI_IFNAME=a\u00a0b"), conf("1.1.0")},
	"no configuration":               {env("ADD"), ""},
	"a broken configuration":         {env("ADD"), `{"name":`},
	"a configuration without a name": {env("ADD"), `{"cniVersion":"1.1.0"}`},
	"a bad name":                     {env("ADD"), `{"cniVersion":"1.1.0","name":"a b"}`},
	"a name of no text":              {env("ADD"), `{"cniVersion":"1.1.0","name":7}`},
	"a version of no text":           {env("ADD"), `{"cniVersion":7,"name":"net"}`},
	"a version of no number":         {env("CHECK"), conf("x")},
	"its own namespace":              {env("ADD", "CNI_NETNS="+netns), conf("1.1.0")},
	"DEL of its own namespace":       {env("DEL", "CNI_NETNS="+netns), conf("1.1.0")},
	"CHECK of its own namespace":     {env("CHECK", "CNI_NETNS="+netns), conf("1.1.0")},
	"its own namespace, as wished":   {env("ADD", "CNI_NETNS="+netns, "CNI_NETNS_OVERRIDE=True"), conf("1.1.0")},
	"its own namespace, wished by 1": {env("ADD", "CNI_NETNS="+netns, "CNI_NETNS_OVERRIDE=1"), conf("1.1.0")},
}

// TestAnswersAsTheOriginal calls both with the same, and with verbs that go well, fail, and
// fail with a code.
func TestAnswersAsTheOriginal(t *testing.T) {
	for outcome, result := range map[string]error{
		"well": nil, "failing": errors.New("broken"), "coded": types.NewError(11, "wait <&>", "details"),
	} {
		for name, tc := range cases {
			if name == "its own namespace" && result != nil {
				continue // the original comes to the failure before it looks at the namespace
			}
			t.Run(name+", "+outcome, func(t *testing.T) {
				want := original(t, tc.env, tc.conf, result)
				got := ours(tc.env, tc.conf, result)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-original +ours):\n%s", diff)
				}
			})
		}
	}
}

// answer is what a runtime sees, and the verb that was called.
type answer struct {
	Exit           int
	Stdout, Stderr string
	Called         string
}

func ours(env map[string]string, conf string, result error) answer {
	var a answer
	var stdout, stderr bytes.Buffer
	verb := func(name string) func(*skel.CmdArgs) error {
		return func(args *skel.CmdArgs) error {
			a.Called = strings.Join([]string{name, args.ContainerID, args.Netns, args.IfName, args.Args, args.Path, string(args.StdinData)}, " ")
			return result
		}
	}
	p := skel.Plugin{
		Funcs:    skel.CNIFuncs{Add: verb("ADD"), Del: verb("DEL"), Check: verb("CHECK"), GC: verb("GC"), Status: verb("STATUS")},
		Versions: version.All, About: "about", Getenv: func(name string) string { return env[name] }, OwnNetNS: machine.OwnNetNS,
		Stdin: strings.NewReader(conf), Stdout: &stdout, Stderr: &stderr,
	}
	a.Exit = p.Run()
	a.Stdout, a.Stderr = stdout.String(), stderr.String()
	return a
}

// original calls the package that this one stands in for, which talks to its process. It
// gives out an address before it looks at the namespace, which is of no use to anyone.
func original(t *testing.T, env map[string]string, conf string, result error) answer {
	t.Helper()
	all := map[string]string{}
	for _, name := range []string{"CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_ARGS", "CNI_PATH", "CNI_NETNS_OVERRIDE"} {
		all[name] = ""
	}
	maps.Copy(all, env)
	for name, value := range all {
		t.Setenv(name, value)
	}
	var a answer
	verb := func(name string) func(*theirs.CmdArgs) error {
		return func(args *theirs.CmdArgs) error {
			a.Called = strings.Join([]string{name, args.ContainerID, args.Netns, args.IfName, args.Args, args.Path, string(args.StdinData)}, " ")
			return result
		}
	}
	funcs := theirs.CNIFuncs{Add: verb("ADD"), Del: verb("DEL"), Check: verb("CHECK"), GC: verb("GC"), Status: verb("STATUS")}
	stdin := filepath.Join(t.TempDir(), "stdin")
	if err := os.WriteFile(stdin, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	a.Stdout, a.Stderr = redirected(t, stdin, func() {
		if err := theirs.PluginMainFuncsWithError(funcs, version.All, "about"); err != nil {
			a.Exit = 1
			_ = err.Print() // to a file
		}
	})
	if env["CNI_COMMAND"] == "ADD" && strings.Contains(a.Stdout, "should not be the same") {
		a.Called = ""
	}
	return a
}

// redirected runs fn with files for the standard ones, and returns what it wrote.
func redirected(t *testing.T, stdin string, fn func()) (stdout, stderr string) {
	t.Helper()
	in, err := os.Open(stdin)
	if err != nil {
		t.Fatal(err)
	}
	var files [2]*os.File
	for i := range files {
		if files[i], err = os.Create(filepath.Join(t.TempDir(), "out")); err != nil {
			t.Fatal(err)
		}
	}
	was := [3]*os.File{os.Stdin, os.Stdout, os.Stderr}
	os.Stdin, os.Stdout, os.Stderr = in, files[0], files[1]
	defer func() { os.Stdin, os.Stdout, os.Stderr = was[0], was[1], was[2] }()
	fn()
	var texts [2]string
	for i, f := range files {
		text, err := os.ReadFile(f.Name())
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		texts[i] = string(text)
	}
	return texts[0], texts[1]
}
