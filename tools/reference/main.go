// Package main writes the reference page of all names that a user of Limpet meets: annotations,
// labels, reasons, conditions, causes, metrics, configuration keys, fields of objects, commands and
// flags. The page is made from the source, from the CRDs and from the help texts of the programs, so
// that it cannot leave one out. A constant, a key or a field without a comment is an error.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", "..", "directory of the repository")
	out := flag.String("out", "", "file to write; empty: standard output")
	flag.Parse()
	if err := run(*root, *out); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func run(root, out string) error {
	source, err := load(root)
	if err != nil {
		return err
	}
	programs, err := helpTexts(root)
	if err != nil {
		return err
	}
	page := write(source, programs)
	if out == "" {
		_, err := os.Stdout.WriteString(page)
		return err
	}
	if err := os.WriteFile(out, []byte(page), 0o644); err != nil { //nolint:gosec // it is a file of the repository
		return fmt.Errorf("write the reference page: %w", err)
	}
	return nil
}
