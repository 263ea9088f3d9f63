package results

import (
	"strings"
	"unicode/utf8"

	"github.com/containernetworking/cni/pkg/utils"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// ValidID reports whether a verb could name an attachment: its network, container and
// interface pass the checks of the specification.
func ValidID(id reservation.AttachmentID) bool {
	return utils.ValidateNetworkName(id.Network) == nil && utils.ValidateContainerID(id.ContainerID) == nil &&
		utils.ValidateInterfaceName(id.IfName) == nil && utf8.ValidString(id.IfName) && !strings.Contains(id.IfName, "\x00")
}
