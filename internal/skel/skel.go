// Package skel is the way from a container runtime to the verbs of a plugin: it reads
// the environment and the standard input, calls the verb, and writes what went wrong.
// It answers as the package of this name in github.com/containernetworking/cni does, which
// it stands in for: that one links regexp, a sixteenth of a binary that runs for each pod.
package skel

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
)

// CmdArgs is what a runtime says of one call.
type CmdArgs struct {
	ContainerID string
	Netns       string
	IfName      string
	Args        string
	Path        string
	StdinData   []byte
}

// CNIFuncs are the verbs of a plugin.
type CNIFuncs struct {
	Add    func(*CmdArgs) error
	Del    func(*CmdArgs) error
	Check  func(*CmdArgs) error
	GC     func(*CmdArgs) error
	Status func(*CmdArgs) error
}

// Plugin is a process that a runtime started.
type Plugin struct {
	Funcs    CNIFuncs
	Versions version.PluginInfo
	// About is told to a person who starts it by hand.
	About string

	Getenv func(string) string
	// OwnNetNS reports whether a path leads to the network namespace of the plugin.
	OwnNetNS func(path string) bool
	Stdin    io.Reader
	Stdout   io.Writer
	Stderr   io.Writer
}

// verb is what the specification says of one.
type verb struct {
	needs []string // beside CNI_COMMAND
	since string   // the version that brought it; "" for the first
	call  func(CNIFuncs) func(*CmdArgs) error
	// joins tells that it is about a container's network namespace, which must not be the
	// plugin's own.
	joins bool
}

var (
	attachment = []string{"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"}

	verbs = map[string]verb{
		"ADD":    {needs: attachment, call: func(f CNIFuncs) func(*CmdArgs) error { return f.Add }, joins: true},
		"DEL":    {needs: []string{"CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"}, call: func(f CNIFuncs) func(*CmdArgs) error { return f.Del }, joins: true},
		"CHECK":  {needs: attachment, since: "0.4.0", call: func(f CNIFuncs) func(*CmdArgs) error { return f.Check }},
		"GC":     {needs: []string{"CNI_PATH"}, since: "1.1.0", call: func(f CNIFuncs) func(*CmdArgs) error { return f.GC }},
		"STATUS": {needs: []string{"CNI_PATH"}, since: "1.1.0", call: func(f CNIFuncs) func(*CmdArgs) error { return f.Status }},
	}
)

// Run does what the runtime asks for and returns the exit code.
func (p *Plugin) Run() int {
	name := p.Getenv("CNI_COMMAND")
	if name == "" && p.About != "" {
		_, _ = fmt.Fprintf(p.Stderr, "%s\nCNI protocol versions supported: %s\n", p.About, strings.Join(p.Versions.SupportedVersions(), ", ")) // nobody to tell
		return 0
	}
	err := p.run(name)
	if err == nil {
		return 0
	}
	coded, ok := errors.AsType[*types.Error](err)
	if !ok {
		coded = types.NewError(types.ErrInternal, err.Error(), "")
	}
	out, err := json.MarshalIndent(coded, "", "    ")
	if err == nil {
		_, err = p.Stdout.Write(out)
	}
	if err != nil {
		_, _ = fmt.Fprintln(p.Stderr, "write error:", err) // nobody to tell
	}
	return 1
}

func (p *Plugin) run(name string) error {
	if name == "VERSION" {
		if err := p.Versions.Encode(p.Stdout); err != nil {
			return types.NewError(types.ErrIOFailure, err.Error(), "")
		}
		return nil
	}
	v, known := verbs[name]
	if err := p.checkEnv(name, v.needs); err != nil {
		return err
	}
	stdin, err := io.ReadAll(p.Stdin)
	if err != nil {
		return types.NewError(types.ErrIOFailure, "error reading from stdin: "+err.Error(), "")
	}
	if err := checkName(stdin); err != nil {
		return err
	}
	if !known {
		return types.NewError(types.ErrInvalidEnvironmentVariables, "unknown CNI_COMMAND: "+name, "")
	}
	if err := p.checkVersion(name, v.since, stdin); err != nil {
		return err
	}
	args := &CmdArgs{
		ContainerID: p.Getenv("CNI_CONTAINERID"), Netns: p.Getenv("CNI_NETNS"), IfName: p.Getenv("CNI_IFNAME"),
		Args: p.Getenv("CNI_ARGS"), Path: p.Getenv("CNI_PATH"), StdinData: stdin,
	}
	own := v.joins && p.ownNetNS(args.Netns)
	if own && name == "ADD" { // a DEL ends all the same what there may be
		return errOwnNetNS()
	}
	if err := v.call(p.Funcs)(args); err != nil {
		return err
	}
	if own {
		return errOwnNetNS()
	}
	return nil
}

func (p *Plugin) ownNetNS(path string) bool {
	override := p.Getenv("CNI_NETNS_OVERRIDE")
	return path != "" && override != "1" && !strings.EqualFold(override, "true") && p.OwnNetNS(path)
}

func errOwnNetNS() error {
	return types.NewError(types.ErrInvalidNetNS, "plugin's netns and netns from CNI_NETNS should not be the same", "")
}
