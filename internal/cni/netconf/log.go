package netconf

import (
	"encoding/json"
	"errors"
	"fmt"
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

func checkLog(path string, maxBytes *int64) error {
	if err := checkLogFile(path); err != nil {
		return fmt.Errorf("ipam.logFile: %q is %w: %w", path, err, ErrConfig)
	}
	if maxBytes != nil && *maxBytes <= 0 {
		return fmt.Errorf("ipam.logMaxBytes: %d is not a positive number of bytes: %w", *maxBytes, ErrConfig)
	}
	return nil
}

// checkLogFile refuses a path that would depend on the directory in which the runtime runs.
func checkLogFile(path string) error {
	if path == "" || path == NoLog || filepath.IsAbs(path) {
		return nil
	}
	return errors.New("neither an absolute path nor \"none\"")
}
