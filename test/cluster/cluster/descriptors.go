package cluster

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// closeOnExec marks all descriptors above 2, so that programs which this process starts do not
// inherit them. Go opens files that way itself. Descriptors that a shell or make left open, such as
// the lock of a script, would else stay open for as long as the cluster runs.
func closeOnExec() error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list open descriptors: %w", err)
	}
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
