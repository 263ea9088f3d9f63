package netconf

import (
	"encoding/json"
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
	var f struct {
		Name string `json:"name"`
		IPAM struct {
			LogFile     string `json:"logFile"`
			LogMaxBytes int64  `json:"logMaxBytes"`
		} `json:"ipam"`
	}
	_ = json.Unmarshal(stdin, &f) // the verb reports the error
	l := Log{Network: f.Name, MaxBytes: DefaultLogMaxBytes}
	if checkLogFile(f.IPAM.LogFile) == nil {
		l.Path = f.IPAM.LogFile
	}
	if f.IPAM.LogMaxBytes > 0 {
		l.MaxBytes = f.IPAM.LogMaxBytes
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
