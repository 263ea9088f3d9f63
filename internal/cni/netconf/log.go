package netconf

import (
	"errors"
	"path/filepath"
)

const (
	// DefaultLogMaxBytes is the size at which the log file is rotated.
	DefaultLogMaxBytes = 10 << 20
	// NoLog is the value of ipam.logFile that switches the log off.
	NoLog = "none"
)

// Log is what the configuration says about the log file.
type Log struct {
	Network string
	// Path is ipam.logFile; "" where the key is missing or wrong.
	Path     string
	MaxBytes int64
}

// ParseLog reads what the log needs, even from a configuration that the verb refuses.
func ParseLog(stdin []byte) Log {
	l := Log{MaxBytes: DefaultLogMaxBytes}
	f, _ := decode(stdin) // the verb reports the error. The verb's own type costs nothing more: the first use of one costs 0.1 ms
	if f == nil {
		return l
	}
	l.Network = f.Name
	if f.IPAM == nil {
		return l
	}
	if checkLogFile(f.IPAM.LogFile) == nil {
		l.Path = f.IPAM.LogFile
	}
	if most := f.IPAM.LogMaxBytes; most != nil && *most > 0 {
		l.MaxBytes = *most
	}
	return l
}

// checkLogFile refuses a path that would depend on the directory in which the runtime runs.
func checkLogFile(path string) error {
	if path == "" || path == NoLog || filepath.IsAbs(path) {
		return nil
	}
	return errors.New("neither an absolute path nor \"none\"")
}
