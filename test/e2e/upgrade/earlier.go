package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// ErrNoCommit is returned for a commit that the checkout does not have.
var ErrNoCommit = errors.New("this checkout does not have the commit; a shallow clone has no history: git fetch --unshallow")

// Earlier writes the files of a commit of a repository into an empty directory and builds the binaries there. The build
// prints into out.
func Earlier(ctx context.Context, repo, commit, dir string, out io.Writer) error {
	if err := exec.CommandContext(ctx, "git", "-C", repo, "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		return fmt.Errorf("find commit %q: %w (%w)", commit, ErrNoCommit, err)
	}
	unpack := exec.CommandContext(ctx, "sh", "-c", `git -C "$1" archive --format=tar "$2" | tar -x -C "$3"`, "sh", repo, commit, dir)
	unpack.Stdout, unpack.Stderr = out, out
	if err := unpack.Run(); err != nil {
		return fmt.Errorf("unpack commit %s: %w", commit, err)
	}
	build := exec.CommandContext(ctx, "make", "-C", dir, "build", "VERSION="+OlderTag)
	build.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { // they are those of this checkout
		return strings.HasPrefix(v, "LIMPET_PROGRAMS=") || strings.HasPrefix(v, "MAKE") || strings.HasPrefix(v, "MFLAGS=")
	})
	build.Stdout, build.Stderr = out, out
	if err := build.Run(); err != nil {
		return fmt.Errorf("build commit %s: %w", commit, err)
	}
	return nil
}
