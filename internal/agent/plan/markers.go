package plan

import (
	"io/fs"
	"time"
)

// MarkerGrace is the age from which a marker file that no process has locked counts as left by a killed ADD. Earlier
// versions lock no marker, and no ADD waits nearly as long.
const MarkerGrace = time.Hour

// MarkersToRemove returns the names of marker files whose ADD was killed while it waited,
// and whose DEL has not come. A marker is an empty regular file; other files are kept.
func MarkersToRemove(files []fs.FileInfo, now time.Time) []string {
	var names []string
	for _, f := range files {
		if f.Mode().IsRegular() && f.Size() == 0 && now.Sub(f.ModTime()) > MarkerGrace {
			names = append(names, f.Name())
		}
	}
	return names
}
