package machine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// errNoMount is returned for a path that no mount holds.
var errNoMount = errors.New("no mount holds it")

// Mounted returns which directory of its file system is mounted where this process sees a path. The kernel follows a
// directory that is renamed, and appends "//deleted" to one that is removed.
func Mounted(path string) (root string, err error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("list mounts: %w", err)
	}
	return rootOf(string(table), filepath.Clean(path))
}

// rootOf finds the mount in a table: the last one at the longest part of the path.
func rootOf(table, path string) (root string, err error) {
	at := ""
	for line := range strings.Lines(table) {
		fields := strings.Fields(line) // ID, parent, device, root, mount point; a space in a path is escaped
		if len(fields) < 5 {
			continue
		}
		point := strings.ReplaceAll(fields[4], `\040`, " ")
		if holds := point == "/" || path == point || strings.HasPrefix(path, point+"/"); holds && len(point) >= len(at) {
			at, root = point, fields[2]+" "+fields[3]
		}
	}
	if at == "" {
		return "", fmt.Errorf("find mount of %s: %w", path, errNoMount)
	}
	return root, nil
}
