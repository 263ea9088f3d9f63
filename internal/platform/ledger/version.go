package ledger

import "strings"

// Knows reports whether a replica may decide whose newest version of a pod is the given one. A
// replica that knows only older pods could count a pod as available that is gone.
func (b Book) Knows(version string) bool {
	return !newer(b.Seen, version)
}

// newer reports whether resource version a is after b. A text that is no version is before all.
func newer(a, b string) bool {
	switch {
	case !isVersion(a):
		return false
	case !isVersion(b):
		return true
	case len(a) != len(b):
		return len(a) > len(b)
	}
	return a > b
}

func newest(a, b string) string {
	if newer(a, b) {
		return a
	}
	return b
}

// isVersion reports whether s is a resource version: a number without leading zeros.
func isVersion(s string) bool {
	return s != "" && s[0] != '0' && strings.Trim(s, "0123456789") == ""
}
