package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// ObjectName joins parts to an object name that is valid and unique. A dot inside a part, other than the last one, would
// make the joined name ambiguous; such names are hashed.
func ObjectName(parts ...string) string {
	name := strings.Join(parts, ".")
	dotted := slices.ContainsFunc(parts[:len(parts)-1], func(p string) bool { return strings.Contains(p, ".") })
	if !dotted && len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "x" + hex.EncodeToString(sum[:12])
}

// ObjectName returns the name that a loan must have: the owner alone decides it, so that an owner has one loan. A loan of
// another name counts for nothing.
func (s BorrowedAddressSpec) ObjectName() string { return ObjectName(s.Pod, s.Interface, s.Network) }
