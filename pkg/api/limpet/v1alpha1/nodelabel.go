package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// NodeLabel returns the value of LabelNode for a node: the name of the node. A label value has at most 63 characters and
// a name up to 253, so a longer name is cut and gets a checksum. No name of a node contains an underscore, so no node has
// the label of another one.
func NodeLabel(node string) string {
	const most = 63
	if len(node) <= most {
		return node
	}
	sum := sha256.Sum256([]byte(node))
	end := "_" + hex.EncodeToString(sum[:6])
	return strings.TrimRight(node[:most-len(end)], ".-") + end
}
