package plan

import (
	"io/fs"
	"strings"
	"time"
)

// LeftoverGrace is the age from which a temporary file counts as left by an interrupted
// installation. No installation takes nearly as long.
const LeftoverGrace = 10 * time.Minute

const (
	tempPrefix = "."
	tempSuffix = ".limpet"
)

// TempPattern returns the pattern of the temporary files of an installation, as os.CreateTemp takes
// it. Runtimes read no file with such a name.
func TempPattern(name string) string { return tempPrefix + name + ".*" + tempSuffix }

// Leftovers returns the names of the temporary files that interrupted installations of the named
// file have left. Younger files than the grace period may belong to an installation under way.
func Leftovers(files []fs.FileInfo, name string, now time.Time, grace time.Duration) []string {
	var left []string
	for _, f := range files {
		random, isTemp := strings.CutPrefix(f.Name(), tempPrefix+name+".")
		random, isTemp2 := strings.CutSuffix(random, tempSuffix)
		if isTemp && isTemp2 && isNumber(random) && f.Mode().IsRegular() && now.Sub(f.ModTime()) >= grace {
			left = append(left, f.Name())
		}
	}
	return left
}

// isNumber reports whether a text is what os.CreateTemp puts in place of the star.
func isNumber(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
