// Command kubectl-limpet is a plugin of kubectl. It tells what Limpet keeps, what needs attention,
// and what an eviction or a drain would do, and releases reservations. It works through the API alone, with the rights
// of its user.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/limpet-io/limpet/internal/console/text"
)

// Exit codes other than 0.
const (
	exitNo    = 1 // the answer is no: something is broken, refused or contradicts
	exitError = 2 // the command could not do its work
)

// errNo is the error of a command whose answer is no, and which has printed why.
var errNo = errors.New("the answer is no")

func main() {
	os.Exit(run())
}

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) // the last one of a terminal that is closed
	defer stop()
	around := surroundings{
		out: os.Stdout, err: os.Stderr, now: time.Now,
		colour: coloured(os.Getenv("NO_COLOR"), term.IsTerminal(int(os.Stdout.Fd()))),
	}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		around.in = os.Stdin
	}
	switch err := newRoot(around).ExecuteContext(ctx); {
	case err == nil:
		return 0
	case errors.Is(err, errNo):
		return exitNo
	default:
		fmt.Fprintln(text.Plain{To: os.Stderr}, "error:", err)
		return exitError
	}
}

// coloured reports whether the output has colours: on a terminal, unless its user set NO_COLOR (no-color.org).
func coloured(noColor string, terminal bool) bool { return terminal && noColor == "" }
