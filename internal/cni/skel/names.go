package skel

import (
	"strings"
	"unicode"
)

// maxInterfaceName is the longest name of an interface; the kernel adds a zero byte.
const maxInterfaceName = 15

// ValidName reports whether a text can be the ID of a container or the name of a network: a letter or digit of ASCII,
// then letters, digits, and the characters "_", "." and "-".
func ValidName(name string) bool {
	for i, c := range []byte(name) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !letter && (i == 0 || c != '_' && c != '.' && c != '-') {
			return false
		}
	}
	return name != ""
}

// WrongInterfaceName says why a text cannot be the name of an interface; "" when it can.
func WrongInterfaceName(name string) string {
	why, _ := wrongInterfaceName(name)
	return why
}

// wrongInterfaceName says the same in the words of the CNI library.
func wrongInterfaceName(name string) (why, details string) {
	switch {
	case name == "":
		return "interface name is empty", ""
	case len(name) > maxInterfaceName:
		return "interface name is too long", "interface name should be less than 16 characters"
	case name == "." || name == "..":
		return "interface name is . or ..", ""
	case strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r == ':' || unicode.IsSpace(r) }):
		return "interface name contains / or : or whitespace characters", ""
	}
	return "", ""
}
