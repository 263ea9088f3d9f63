// Package machine asks the Linux kernel about this machine: clocks and boot ID, network
// namespaces with their interfaces, and the neighbour table.
package machine

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// BootIDPath is the file with an ID that the kernel creates at each boot.
const BootIDPath = "/proc/sys/kernel/random/boot_id"

// ReadClocks returns a function that reads the clocks: the wall clock by the function wall,
// and CLOCK_BOOTTIME with the boot ID from bootIDPath, which is read once.
func ReadClocks(bootIDPath string, wall func() time.Time) (func() reservation.Moment, error) {
	boot, err := os.ReadFile(bootIDPath)
	if err != nil {
		return nil, fmt.Errorf("read boot ID: %w", err)
	}
	id := strings.TrimSpace(string(boot))
	return func() reservation.Moment {
		var up unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) // fails for an invalid clock or address only
		return reservation.Moment{Wall: wall(), BootID: id, Up: time.Duration(up.Nano())}
	}, nil
}

// StatNetNS returns device and inode of the network namespace that is bound to a path.
func StatNetNS(path string) (reservation.NetNS, bool) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return reservation.NetNS{}, false
	}
	return reservation.NetNS{Path: path, Dev: st.Dev, Inode: st.Ino}, true
}
