package reservation

import "strings"

// longestOwner is the length of the longest owner name. Status fields of the API have this bound.
const longestOwner = 253

// OwnerName returns the name under which the addresses of a pod are kept: the completed value of OwnerAnnotation,
// GROUP/KIND/NAME/OWNER of the controller and of the owner, or else the name of the pod. Admission lets no pod have the
// completed name of another controller.
func OwnerName(pod string, annotations map[string]string) string {
	if owner := annotations[OwnerAnnotation]; IsOwnerName(owner) {
		return owner
	}
	return pod
}

// IsOwnerName reports whether a name is a completed owner name. No name of a pod has a slash.
func IsOwnerName(name string) bool {
	return strings.Count(name, "/") == 3 && len(name) <= longestOwner && strings.IndexFunc(name, noNameHas) < 0
}

// The owner name of an IPAMClaim of k8s.cni.cncf.io, in which the Network Plumbing Working Group gives the addresses of an
// interface a life of their own, is between these.
const claimPrefix, claimSuffix = "k8s.cni.cncf.io/IPAMClaim/", "/ips"

// ClaimOwner returns the name under which the addresses of an IPAMClaim are kept; "" if no IPAMClaim has the name.
func ClaimOwner(claim string) string {
	name := claimPrefix + claim + claimSuffix
	if strings.Trim(claim, ".") == "" || !IsOwnerName(name) { // no object is named by dots alone
		return ""
	}
	return name
}

// ClaimOf returns the IPAMClaim whose addresses are kept under an owner name; "" for another owner.
func ClaimOf(owner string) string {
	rest, ok := strings.CutPrefix(owner, claimPrefix)
	claim, of := strings.CutSuffix(rest, claimSuffix)
	if !ok || !of || ClaimOwner(claim) != owner {
		return ""
	}
	return claim
}

// noNameHas reports whether a character is in no name, group or kind of the API.
func noNameHas(c rune) bool {
	return (c < '-' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') // - . / and digits are in order
}
