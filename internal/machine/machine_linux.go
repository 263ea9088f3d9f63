// Package machine asks the Linux kernel about this machine: clocks and boot ID, network
// namespaces with their interfaces, and the neighbour table.
package machine

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// BootIDPath is the file with an ID that the kernel creates at each boot.
const BootIDPath = "/proc/sys/kernel/random/boot_id"

// errNoBootID is returned for a file without a boot ID.
var errNoBootID = errors.New("the file is empty")

// ReadClocks returns a function that reads the clocks: the wall clock by the function wall,
// and CLOCK_BOOTTIME with the boot ID from bootIDPath, which is read once. With an error the
// function names a boot of its own: times are then compared by the wall clock.
func ReadClocks(bootIDPath string, wall func() time.Time) (func() reservation.Moment, error) {
	boot, err := os.ReadFile(bootIDPath)
	id := strings.TrimSpace(string(boot))
	if err == nil && id == "" {
		err = errNoBootID
	}
	if err != nil {
		err = fmt.Errorf("read boot ID %s: %w", bootIDPath, err)
		id = fmt.Sprintf("unknown at %d", wall().UnixNano())
	}
	return func() reservation.Moment {
		var up unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) // fails for an invalid clock or address only
		return reservation.Moment{Wall: wall(), BootID: id, Up: time.Duration(up.Nano())}
	}, err
}

// StatNetNS returns device and inode of the network namespace that is bound to a path.
func StatNetNS(path string) (reservation.NetNS, bool) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return reservation.NetNS{}, false
	}
	return reservation.NetNS{Path: path, Dev: st.Dev, Inode: st.Ino}, true
}
