// Package ipamtool is the part of limpet-ipam that people run: it shows and mends the
// state of the node it runs on. It needs neither the API server nor the agent, and
// reads through the same lock as the plugin, so that it may be run at any time.
//
// Each command is a file: list.go, show.go and so on. Commands that only show never make
// or repair a state.
package ipamtool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"path/filepath"
	"syscall"

	"github.com/limpet-io/limpet/pkg/persistence"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// Exit codes of every command.
const (
	// ExitDone is that of a command that did what it was asked.
	ExitDone = 0
	// ExitNo is that of one whose answer is no: nothing found, release refused, a rule
	// violated.
	ExitNo = 1
	// ExitFailed is that of one that could not read or write the state, or was called
	// wrongly.
	ExitFailed = 2
)

// Tool is what the commands need of the machine.
type Tool struct {
	// Now reads the clocks.
	Now func() reservation.Moment
	// NetNS looks at the network namespace bound to a path; false when there is none.
	NetNS func(path string) (reservation.NetNS, bool)
	// Running lists the attachments that must be in the state in a directory, as others
	// than the state know.
	Running func(dir string) ([]reservation.Attachment, error)
	// Rebuild returns what makes the state in a directory again.
	Rebuild func(dir string) func(persistence.Salvaged) (reservation.Records, error)
	// Log leaves a line among those of the verbs, of addresses that were freed by hand; none
	// when nil.
	Log func(verb string, owner reservation.Owner, containerID string, addrs []netip.Addr, reason string)
	// Version is what the version command prints.
	Version string
	// Stdout takes the answer.
	Stdout io.Writer
	// Stderr takes what went wrong.
	Stderr io.Writer
}

// noError is an answer that is no, which is not a failure.
type noError string

// Error returns the answer.
func (e noError) Error() string { return string(e) }

// Run carries out the command that the arguments name and returns the exit code.
func (t *Tool) Run(ctx context.Context, args []string) int {
	err := t.run(ctx, args)
	if err == nil {
		return ExitDone
	}
	_, _ = fmt.Fprintln(t.Stderr, "limpet-ipam:", err) // nobody to tell when stderr is gone
	if errors.As(err, new(noError)) {
		return ExitNo
	}
	return ExitFailed
}

// explain adds to an error of the state what a person can do about it.
func explain(err error, dir string) error {
	switch {
	case errors.Is(err, persistence.ErrNoState):
		return fmt.Errorf("%s: %w: no pod was given an address here, or ipam.dataDir says another directory (--data-dir)", dir, err)
	case persistence.LostOrDamaged(err):
		return fmt.Errorf("%w: the next pod that starts or ends makes it again and keeps the damaged file; limpet-ipam check --repair does so now", err)
	case errors.Is(err, persistence.ErrLocked):
		return fmt.Errorf("%w: a limpet-ipam is at work; fuser -v %s shows which", err, filepath.Join(dir, "limpet.lock"))
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%w: mount it for writing again; list, show and check work meanwhile", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: the state is root's", err)
	}
	return err
}
