package main

import (
	"context"
	"fmt"
	"runtime"
	"strings"

	"github.com/limpet-io/limpet/test/cluster/build"
)

// release is the output of `git describe`. The Makefile sets it with -ldflags -X.
var release = "unknown"

// version prints the version of this program and of the components that it builds.
func version(context.Context, []string) error {
	fmt.Printf("limpet-cluster %s (%s)\n%s\n", release, runtime.Version(), strings.Join(build.ComponentVersions(), "\n"))
	return nil
}
