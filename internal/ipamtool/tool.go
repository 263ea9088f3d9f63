// Package ipamtool implements the commands of limpet-ipam, which show and repair the state of the node. The
// commands need neither the API server nor the agent, take the same lock as the plugin, and can run at any time.
//
// Each command but version is a file: list.go, show.go and so on. Commands that only show never create or repair
// a state.
package ipamtool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Exit codes of every command.
const (
	// ExitDone says that the command succeeded.
	ExitDone = 0
	// ExitNo says that the answer is no: nothing found, release refused, a rule violated.
	ExitNo = 1
	// ExitFailed says that the state could not be read or written, or that the arguments were wrong.
	ExitFailed = 2
)

// Tool runs the commands. The fields are what the commands need of the machine.
type Tool struct {
	// Now reads the clocks.
	Now func() reservation.Moment
	// NetNS returns the network namespace bound to a path; false when there is none.
	NetNS func(path string) (reservation.NetNS, bool)
	// Running lists the attachments that sources other than the state know, and that a state in the directory must
	// hold.
	Running func(dir string) ([]reservation.Attachment, error)
	// Rebuild returns the function that rebuilds the state in a directory.
	Rebuild func(dir string) func(persistence.Salvaged) (reservation.Records, error)
	// Log writes a line about released addresses to the log of the verbs; nil for no line.
	Log func(verb string, owner reservation.Owner, containerID string, addrs []netip.Addr, reason string)
	// Version is what the version command prints.
	Version string
	// Stdout receives the answer.
	Stdout io.Writer
	// Stderr receives errors.
	Stderr io.Writer
}

// noError is the answer no, which is not a failure.
type noError string

// Error returns the answer.
func (e noError) Error() string { return string(e) }

// Run runs the command that the arguments name and returns the exit code.
func (t *Tool) Run(ctx context.Context, args []string) int {
	debug.SetGCPercent(200) // a large state is read once, and little of it is kept
	err := t.run(ctx, args)
	if err == nil {
		return ExitDone
	}
	lines := strings.Split(err.Error(), "\n")
	for i, l := range lines {
		lines[i] = printable(l)
	}
	_, _ = fmt.Fprintln(t.Stderr, "limpet-ipam:", strings.Join(lines, "\n")) // an error of stderr cannot be reported
	if errors.As(err, new(noError)) {
		return ExitNo
	}
	return ExitFailed
}

// explain adds to an error of the state what the user can do.
func explain(err error, dir string) error {
	switch {
	case errors.Is(err, persistence.ErrNoState):
		return fmt.Errorf("%s: %w: no pod has had an address here, or ipam.dataDir names another directory (--data-dir)", dir, err)
	case persistence.LostOrDamaged(err):
		return fmt.Errorf("%w: the next pod that starts or ends rebuilds it and keeps the damaged file; limpet-ipam check --repair does so now", err)
	case errors.Is(err, persistence.ErrLocked):
		return fmt.Errorf("%w: another limpet-ipam is running; fuser -v %s shows which", err, filepath.Join(dir, "limpet.lock"))
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: remount it for writing; list, show and check work meanwhile", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: only root can read the state", err)
	}
	return err
}
