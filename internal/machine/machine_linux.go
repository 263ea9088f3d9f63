// Package machine reads what only the kernel knows: the clocks of this boot and
// which network namespace is bound to a path.
package machine

import (
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// BootIDPath tells one boot of the machine from the next.
const BootIDPath = "/proc/sys/kernel/random/boot_id"

// ReadClocks returns a function that reads the machine's clocks: wall, and
// CLOCK_BOOTTIME within the boot that bootIDPath names.
func ReadClocks(bootIDPath string, wall func() time.Time) (func() reservation.Moment, error) {
	boot, err := os.ReadFile(bootIDPath)
	if err != nil {
		return nil, fmt.Errorf("read boot ID: %w", err)
	}
	id := strings.TrimSpace(string(boot))
	return func() reservation.Moment {
		var up unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &up) // cannot fail with a valid clock and address
		return reservation.Moment{Wall: wall(), BootID: id, Up: time.Duration(up.Nano())}
	}, nil
}

// StatNetNS looks at the network namespace bound to a path.
func StatNetNS(path string) (reservation.NetNS, bool) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return reservation.NetNS{}, false
	}
	return reservation.NetNS{Path: path, Dev: st.Dev, Inode: st.Ino}, true
}

// OwnNetNS reports whether a path leads to the network namespace that the calling thread is
// in.
func OwnNetNS(path string) bool {
	named, found := StatNetNS(path)
	own, _ := StatNetNS("/proc/thread-self/ns/net") // found is the same as equal to one that is
	return found && named.Dev == own.Dev && named.Inode == own.Inode
}
