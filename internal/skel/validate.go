package skel

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"
)

// checkEnv fails for variables that a verb needs and that are not there, or are not what
// they must be.
func (p *Plugin) checkEnv(name string, needs []string) error {
	var missing []string
	if name == "" {
		missing = append(missing, "CNI_COMMAND")
	}
	for _, n := range needs {
		value := p.Getenv(n)
		var err error
		switch {
		case value == "":
			missing = append(missing, n)
		case n == "CNI_CONTAINERID" && !ValidName(value):
			err = types.NewError(types.ErrInvalidEnvironmentVariables, "invalid characters in containerID", value)
		case n == "CNI_IFNAME":
			err = checkIfName(value)
		}
		if err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return types.NewError(types.ErrInvalidEnvironmentVariables, fmt.Sprintf("required env variables [%s] missing", strings.Join(missing, ",")), "")
	}
	return nil
}

// ValidName reports whether a text will do as the name of a network or a container:
// letters, digits and _.- of ASCII, and none of these three at the beginning.
func ValidName(s string) bool {
	for i, c := range []byte(s) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || !strings.ContainsRune("_.-", rune(c))) {
			return false
		}
	}
	return s != ""
}

// ValidIfName reports whether it is a text that will do as the name of an interface.
func ValidIfName(s string) bool {
	return s != "" && utf8.ValidString(s) && !strings.Contains(s, "\x00") && checkIfName(s) == nil
}

// checkIfName holds a name to what the kernel takes for one.
func checkIfName(name string) error {
	const most = 15
	bad := func(text, details string) error {
		return types.NewError(types.ErrInvalidEnvironmentVariables, text, details)
	}
	switch {
	case len(name) > most:
		return bad("interface name is too long", fmt.Sprintf("interface name should be less than %d characters", most+1))
	case name == "." || name == "..":
		return bad("interface name is . or ..", "")
	case strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r == ':' || unicode.IsSpace(r) }):
		return bad("interface name contains / or : or whitespace characters", "")
	}
	return nil
}

// checkName looks for the name of the network, without which no configuration is one.
func checkName(stdin []byte) error {
	var conf struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(stdin, &conf); err != nil {
		return types.NewError(types.ErrDecodingFailure, "error unmarshall network config: "+err.Error(), "")
	}
	if conf.Name == "" {
		return types.NewError(types.ErrInvalidNetworkConfig, "missing network name", "")
	}
	if !ValidName(conf.Name) {
		return types.NewError(types.ErrInvalidNetworkConfig, "invalid characters found in network name", conf.Name)
	}
	return nil
}

// checkVersion fails for a version of the configuration that has no such verb, or that
// the plugin does not speak.
func (p *Plugin) checkVersion(name, since string, stdin []byte) error {
	wants, err := new(version.ConfigDecoder).Decode(stdin)
	if err != nil {
		return types.NewError(types.ErrDecodingFailure, err.Error(), "")
	}
	if since != "" {
		has, err := version.GreaterThanOrEqualTo(wants, since)
		if err != nil {
			return types.NewError(types.ErrDecodingFailure, err.Error(), "")
		}
		if !has {
			return types.NewError(types.ErrIncompatibleCNIVersion, "config version does not allow "+name, "")
		}
		if newest := p.newest(); !atLeast(newest, wants) {
			return types.NewError(types.ErrIncompatibleCNIVersion, "plugin version does not allow "+name, "")
		}
	}
	if err := new(version.Reconciler).Check(wants, p.Versions); err != nil {
		return types.NewError(types.ErrIncompatibleCNIVersion, "incompatible CNI versions", err.Details())
	}
	return nil
}

// newest returns the highest version that the plugin speaks.
func (p *Plugin) newest() string {
	var newest string
	for _, v := range p.Versions.SupportedVersions() {
		if atLeast(v, newest) {
			newest = v
		}
	}
	return newest
}

// atLeast compares versions that are known to be some.
func atLeast(a, b string) bool {
	is, err := version.GreaterThanOrEqualTo(a, b)
	return is && err == nil
}
