// Package main adds a pattern to each date-time of the CRDs in a directory. The format alone
// accepts times that no client in Go can read, such as 2026-01-02t03:04:05z. One object with
// such a time would make every list of its kind fail.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// pattern is RFC 3339 as Go reads it. The format refuses days and hours that do not exist.
const pattern = `pattern: ^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$`

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "crdtimes:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*_*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("find CRDs in %s: %d files, %w", dir, len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read CRD: %w", err)
		}
		if err := os.WriteFile(file, []byte(withPatterns(string(text))), 0o644); err != nil { //nolint:gosec // it is a file of the repository
			return fmt.Errorf("write CRD: %w", err)
		}
	}
	return nil
}

// withPatterns adds the pattern below each format. A second call changes nothing.
func withPatterns(text string) string {
	lines := strings.Split(text, "\n")
	var out []string
	for i, line := range lines {
		out = append(out, line)
		indent, found := strings.CutSuffix(line, "format: date-time")
		if next := strings.TrimSpace(lines[min(i+1, len(lines)-1)]); found && next != pattern {
			out = append(out, indent+pattern)
		}
	}
	return strings.Join(out, "\n")
}
