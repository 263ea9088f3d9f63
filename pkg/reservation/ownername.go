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

// noNameHas reports whether a character is in no name, group or kind of the API.
func noNameHas(c rune) bool {
	return (c < '-' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') // - . / and digits are in order
}
