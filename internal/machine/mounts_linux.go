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

// Mounted returns which directory of its file system is mounted where this process sees each path. The kernel follows a
// directory that is renamed, and appends "//deleted" to one that is removed.
func Mounted(paths ...string) (roots map[string]string, err error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	roots = map[string]string{}
	for i := 0; err == nil && i < len(paths); i++ {
		roots[paths[i]], err = rootOf(string(table), filepath.Clean(paths[i]))
	}
	return roots, err
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
