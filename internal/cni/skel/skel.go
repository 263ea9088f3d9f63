// Package skel turns the environment and the standard input of a CNI plugin into a call of one verb, as the CNI
// specification says. The names of its types are those of the CNI library's package.
//
// The library's package links regular expressions and two more decoders, which are 250 kB of a binary that every pod
// start executes.
package skel

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/internal/cni/netconf"
)

// CmdArgs is one call.
type CmdArgs struct {
	ContainerID string
	Netns       string
	IfName      string
	Args        string
	// Conf is the configuration on standard input.
	Conf *netconf.Input
}

// CNIFuncs are the verbs of a plugin.
type CNIFuncs struct {
	Add, Del, Check, GC, Status func(*CmdArgs) error
}

// Process is what a call learns from its process.
type Process struct {
	Getenv func(string) string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
}

// verb is a verb with a configuration.
type verb struct {
	name string
	run  func(*CmdArgs) error
	// since is the index of the first version with the verb.
	since int
	// needs are the variables that must be set.
	needs []string
}

func verbsOf(f CNIFuncs) []verb {
	all := []string{"CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"}
	return []verb{
		{"ADD", f.Add, 0, all},
		{"DEL", f.Del, 0, []string{"CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"}},
		{"CHECK", f.Check, 4, all},
		{"GC", f.GC, 6, []string{"CNI_PATH"}},
		{"STATUS", f.Status, 6, []string{"CNI_PATH"}},
	}
}

// Run runs the verb that the environment names. Without a verb it prints about to standard error.
func (p Process) Run(funcs CNIFuncs, about string) *types.Error {
	name := p.Getenv("CNI_COMMAND")
	switch name {
	case "":
		_, _ = fmt.Fprintf(p.Stderr, "%s\nCNI protocol versions supported: %s\n", about, strings.Join(version.All.SupportedVersions(), ", ")) // for a person
		return nil
	case "VERSION":
		if err := version.All.Encode(p.Stdout); err != nil {
			return types.NewError(types.ErrIOFailure, err.Error(), "")
		}
		return nil
	}
	for _, v := range verbsOf(funcs) {
		if v.name == name {
			return p.call(v)
		}
	}
	return types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("unknown CNI_COMMAND: %.64s", name), "")
}

// call reads the call and runs the verb.
func (p Process) call(v verb) *types.Error {
	args := &CmdArgs{ContainerID: p.Getenv("CNI_CONTAINERID"), Netns: p.Getenv("CNI_NETNS"), IfName: p.Getenv("CNI_IFNAME"), Args: p.Getenv("CNI_ARGS")}
	if err := p.checkEnvironment(v, args); err != nil {
		return err
	}
	stdin := bytes.NewBuffer(make([]byte, 0, 8<<10)) // one call reads an everyday configuration
	_, err := stdin.ReadFrom(p.Stdin)
	data := stdin.Bytes()
	if err != nil {
		return types.NewError(types.ErrIOFailure, "error reading from stdin: "+err.Error(), "")
	}
	args.Conf = netconf.Decode(data)
	if err := checkConfig(v, args.Conf, data); err != nil {
		return err
	}
	if v.name == "ADD" && p.inOwnNetNS(args.Netns) { // before the verb: the library's package leaves the addresses attached
		return errOwnNetNS()
	}
	if err := v.run(args); err != nil {
		if coded := new(types.Error); errors.As(err, &coded) {
			return coded
		}
		return types.NewError(types.ErrInternal, err.Error(), "")
	}
	if v.name == "DEL" && p.inOwnNetNS(args.Netns) {
		return errOwnNetNS()
	}
	return nil
}

// checkEnvironment fails when a variable is missing, or a name is none.
func (p Process) checkEnvironment(v verb, args *CmdArgs) *types.Error {
	var missing []string
	for _, name := range v.needs {
		if p.Getenv(name) == "" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return types.NewError(types.ErrInvalidEnvironmentVariables, "required env variables ["+strings.Join(missing, ",")+"] missing", "")
	}
	if !slices.Contains(v.needs, "CNI_IFNAME") {
		return nil
	}
	if !ValidName(args.ContainerID) {
		return types.NewError(types.ErrInvalidEnvironmentVariables, "invalid characters in containerID", shown(args.ContainerID))
	}
	if why, details := wrongInterfaceName(args.IfName); why != "" {
		return types.NewError(types.ErrInvalidEnvironmentVariables, why, details)
	}
	return nil
}

// checkConfig fails for a configuration without a network, and for a version that the verb does not have.
func checkConfig(v verb, conf *netconf.Input, data []byte) *types.Error {
	asked, name, err := conf.Head()
	if err != nil {
		if err := undecodable(data); err != nil {
			return err
		}
	}
	switch {
	case name == "":
		return types.NewError(types.ErrInvalidNetworkConfig, "missing network name", "")
	case !ValidName(name):
		return types.NewError(types.ErrInvalidNetworkConfig, "invalid characters found in network name", shown(name))
	}
	known := version.All.SupportedVersions()
	switch at := slices.Index(known, asked); {
	case at < 0:
		return unknownVersion(v, asked, known)
	case at < v.since:
		return types.NewError(types.ErrIncompatibleCNIVersion, "config version does not allow "+v.name, "")
	}
	return nil
}

// undecodable says what is wrong with a name or a version in the words of the library, which decodes the name and then
// the version. Other keys are the matter of the verb.
func undecodable(data []byte) *types.Error {
	var named struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(data, &named); err != nil {
		return types.NewError(types.ErrDecodingFailure, "error unmarshall network config: "+err.Error(), "")
	}
	if _, err := (&version.ConfigDecoder{}).Decode(data); err != nil {
		return types.NewError(types.ErrDecodingFailure, err.Error(), "")
	}
	return nil
}

// unknownVersion says what is wrong with a version that the plugin does not know. For a verb of a later version of the
// specification, an older one and a newer one get answers of their own.
func unknownVersion(v verb, asked string, known []string) *types.Error {
	older, err := version.GreaterThan(known[v.since], asked)
	newer, err2 := version.GreaterThan(asked, known[len(known)-1])
	switch {
	case v.since > 0 && errors.Join(err, err2) != nil:
		return types.NewError(types.ErrDecodingFailure, errors.Join(err, err2).Error(), "")
	case v.since > 0 && older:
		return types.NewError(types.ErrIncompatibleCNIVersion, "config version does not allow "+v.name, "")
	case v.since > 0 && newer:
		return types.NewError(types.ErrIncompatibleCNIVersion, "plugin version does not allow "+v.name, "")
	}
	incompatible := version.ErrorIncompatible{Config: asked, Supported: known}
	return types.NewError(types.ErrIncompatibleCNIVersion, "incompatible CNI versions", incompatible.Details())
}

// shown returns the beginning of a name, for the details of an error.
func shown(name string) string { return fmt.Sprintf("%.64s", strings.ToValidUTF8(name, "?")) }

func errOwnNetNS() *types.Error {
	return types.NewError(types.ErrInvalidNetNS, "plugin's netns and netns from CNI_NETNS should not be the same", "")
}

// inOwnNetNS reports whether a path is that of the network namespace in which the plugin runs. A path that cannot be
// opened is that of a namespace which is gone.
func (p Process) inOwnNetNS(path string) bool {
	if override := p.Getenv("CNI_NETNS_OVERRIDE"); path == "" || override == "1" || strings.EqualFold(override, "true") {
		return false
	}
	var own, named unix.Stat_t
	return unix.Stat(path, &named) == nil && unix.Stat("/proc/thread-self/ns/net", &own) == nil && own.Dev == named.Dev && own.Ino == named.Ino
}

// maxInterfaceName is the longest name of an interface; the kernel adds a zero byte.
const maxInterfaceName = 15

// ValidName reports whether a text can be the ID of a container or the name of a network: a letter or digit of ASCII,
// then letters, digits, and the characters "_", "." and "-".
func ValidName(name string) bool {
	for i, c := range []byte(name) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || c != '_' && c != '.' && c != '-') {
			return false
		}
	}
	return name != ""
}

// WrongInterfaceName says why a text cannot be the name of an interface; "" when it can.
func WrongInterfaceName(name string) string {
	why, _ := wrongInterfaceName(name)
	return why
}

// wrongInterfaceName says the same in the words of the CNI library.
func wrongInterfaceName(name string) (why, details string) {
	switch {
	case name == "":
		return "interface name is empty", ""
	case len(name) > maxInterfaceName:
		return "interface name is too long", "interface name should be less than 16 characters"
	case name == "." || name == "..":
		return "interface name is . or ..", ""
	case strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r == ':' || unicode.IsSpace(r) }):
		return "interface name contains / or : or whitespace characters", ""
	}
	return "", ""
}
