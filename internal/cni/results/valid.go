package results

import (
	"strings"
	"unicode/utf8"

	"github.com/limpet-io/limpet/internal/cni/skel"
	"github.com/limpet-io/limpet/pkg/reservation"
)

// ValidID reports whether a verb could name an attachment: its network, container and
// interface pass the checks of the specification.
func ValidID(id reservation.AttachmentID) bool {
	return skel.ValidName(id.Network) && skel.ValidName(id.ContainerID) &&
		skel.WrongInterfaceName(id.IfName) == "" && utf8.ValidString(id.IfName) && !strings.Contains(id.IfName, "\x00")
}
