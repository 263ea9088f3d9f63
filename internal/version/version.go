// Package version holds the version of the binary it is linked into.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// release is the output of `git describe`. The Makefile sets it with -ldflags -X.
var release string

// String returns the version, the Go version and the platform, in one line without a
// line feed. It holds no time, so that one commit gives one binary.
func String() string {
	return fmt.Sprintf("%s (%s, %s/%s)", Release(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// Release returns the version of the source alone.
func Release() string {
	info, _ := debug.ReadBuildInfo()
	return describe(release, info)
}

// describe returns the name of the source: the release if the build gave one, then the
// commit that the Go command stamped, then the module's version.
func describe(release string, info *debug.BuildInfo) string {
	if release != "" {
		return release
	}
	if info == nil {
		return "unknown"
	}
	commit, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = "-dirty"
		}
	}
	switch {
	case commit != "":
		return commit + modified
	case info.Main.Version == "" || info.Main.Version == "(devel)":
		return "unknown"
	}
	return info.Main.Version
}
