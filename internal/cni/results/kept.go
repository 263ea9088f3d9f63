package results

import (
	"errors"
	"os"
	"strings"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// Succeeded reports whether a cache has a file of an attachment, or cannot tell: all plugins of the chain have succeeded.
func Succeeded(dirs []string, id reservation.AttachmentID) bool {
	for _, dir := range dirs {
		if _, err := os.Stat(path(dir, id)); !errors.Is(err, os.ErrNotExist) {
			return true
		}
	}
	return false
}

// Search looks through the names of all files for what they say of an attachment without a file of its own. kept is true
// when there are files of its network: the caller keeps its results here, and the missing file says that the ADD has
// failed. sibling is true when the container has files of other networks: the runtime keeps the result of Multus, and
// Multus keeps those of its delegates where its configuration says.
func Search(dirs []string, id reservation.AttachmentID) (kept, sibling bool) {
	for _, dir := range dirs {
		f, err := os.Open(dir)
		if err != nil {
			continue // mostly missing
		}
		names, _ := f.Readdirnames(-1) // those that can be read
		_ = f.Close()                  // opened for reading only
		for _, name := range names {
			kept = kept || strings.HasPrefix(name, id.Network+"-")
			sibling = sibling || strings.Contains(name, "-"+id.ContainerID+"-") && !strings.HasSuffix(name, loopback)
		}
	}
	return kept, sibling
}

// loopback ends the name of the file that containerd's own loopback network has for a container.
const loopback = "-lo"
