// Command kubectl-limpet is a plugin of kubectl. It tells what Limpet keeps, what needs a hand,
// and what an eviction or a drain would do. It reads the API alone, with the rights of its user.
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	around := surroundings{
		out: os.Stdout, err: os.Stderr, now: time.Now,
		colour: os.Getenv("NO_COLOR") == "" && term.IsTerminal(int(os.Stdout.Fd())),
	}
	switch err := newRoot(around).ExecuteContext(ctx); {
	case err == nil:
		return 0
	case errors.Is(err, errNo):
		return exitNo
	default:
		fmt.Fprintln(os.Stderr, "error:", err)
		return exitError
	}
}
