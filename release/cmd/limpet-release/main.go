// Command limpet-release writes what a release says about its files: the bill of materials,
// the provenance, and whether the licences of its parts permit the distribution.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
)

const usage = `limpet-release describes the files of a release.

Usage:
  limpet-release licences BINARY...                 check the licence of each module in the binaries
  limpet-release sbom --dir DIR BINARY... [IMAGES.tar]
                                                    write DIR/<binary>.spdx.json for each binary, and
                                                    DIR/<image>.image.spdx.json for each image
  limpet-release provenance --out FILE BINARY... [IMAGES.tar]
                                                    write an unsigned SLSA provenance of all of them
  limpet-release krew --version VERSION ARCHIVE...  print the krew manifest of the kubectl plugin

Each file of an image must be one of the named binaries.
sbom and provenance read the version, the commit and its time from git in the current directory.
Environment: GO is the Go command, LIMPET_BUILDER the URI of the builder in the provenance.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	e := environment{
		stdout: os.Stdout, goCommand: cmp.Or(os.Getenv("GO"), "go"),
		builder: cmp.Or(os.Getenv("LIMPET_BUILDER"), repository+"/local"),
	}
	err := e.run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "limpet-release:", err)
		os.Exit(1)
	}
}

// environment is what the commands take from their surroundings.
type environment struct {
	stdout    io.Writer
	goCommand string
	// builder identifies the builder in a provenance by a URI.
	builder string
}

// errUsage is returned for arguments that no command takes.
var errUsage = errors.New("wrong arguments, see limpet-release help")

// run runs one command.
func (e environment) run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("%w: no command", errUsage)
	}
	switch command, rest := args[0], args[1:]; command {
	case "licences":
		return e.licences(ctx, rest)
	case "sbom":
		return e.boms(ctx, rest)
	case "provenance":
		return e.provenances(ctx, rest)
	case "krew":
		return e.krew(rest)
	case "help", "--help", "-h":
		_, err := fmt.Fprint(e.stdout, usage)
		return err
	default:
		return fmt.Errorf("%w: unknown command %q", errUsage, command)
	}
}

// parse splits the value of one flag from the names of binaries.
func parse(args []string, flag string) (value string, binaries []string, err error) {
	if flag != "" {
		if len(args) < 2 || args[0] != flag {
			return "", nil, fmt.Errorf("%w: %s is missing", errUsage, flag)
		}
		value, args = args[1], args[2:]
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return "", nil, fmt.Errorf("%w: name at least one binary", errUsage)
	}
	return value, args, nil
}
