package netconf

import (
	"encoding/json"
	"fmt"

	"github.com/limpet-io/limpet/pkg/reservation"
)

// ValidAttachments reads the list of a GC. A null list says that no attachment is valid;
// known is false where the list is missing, which says nothing.
func ValidAttachments(stdin []byte, network string) (valid map[reservation.AttachmentID]bool, known bool, err error) {
	var conf map[string]json.RawMessage
	if err := json.Unmarshal(stdin, &conf); err != nil {
		return nil, false, fmt.Errorf("decode network configuration: %w: %w", err, ErrConfig)
	}
	raw, known := conf["cni.dev/valid-attachments"]
	if !known {
		return nil, false, nil
	}
	var list []struct {
		ContainerID string `json:"containerID"`
		IfName      string `json:"ifname"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, false, fmt.Errorf("cni.dev/valid-attachments: %w: %w", err, ErrConfig)
	}
	valid = map[reservation.AttachmentID]bool{}
	for _, a := range list {
		valid[reservation.AttachmentID{Network: network, ContainerID: a.ContainerID, IfName: a.IfName}] = true
	}
	return valid, true, nil
}
