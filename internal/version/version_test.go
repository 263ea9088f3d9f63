package version

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestDescribe(t *testing.T) {
	built := func(module string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: module}, Settings: settings}
	}
	commit := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123"}
	tests := map[string]struct {
		release string
		info    *debug.BuildInfo
		want    string
	}{
		"the build's release comes first":     {"v1.2.3", built("v0.0.1", commit), "v1.2.3"},
		"the commit comes second":             {"", built("v0.0.1", commit), "0123456789ab"},
		"changes that are not committed show": {"", built("", commit, debug.BuildSetting{Key: "vcs.modified", Value: "true"}), "0123456789ab-dirty"},
		"a clean work tree adds nothing":      {"", built("", commit, debug.BuildSetting{Key: "vcs.modified", Value: "false"}), "0123456789ab"},
		"go install names a module version":   {"", built("v0.3.0"), "v0.3.0"},
		"a build in a directory has none":     {"", built("(devel)"), "unknown"},
		"a binary without build information":  {"", nil, "unknown"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := describe(test.release, test.info); got != test.want {
				t.Errorf("describe() = %q, want %q", got, test.want)
			}
		})
	}
}

func TestStringIsOneLine(t *testing.T) {
	if s := String(); s == "" || strings.ContainsAny(s, "\n") || !strings.Contains(s, "go1.") {
		t.Errorf("String() = %q", s)
	}
}
