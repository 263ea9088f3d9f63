// Package words_test checks the plain words of this repository: its comments, the texts that users see, and its documents.
package words_test

// phrases maps a phrase of a text to a better one. A phrase counts in any case and only
// as whole words.
var phrases = map[string]string{
	"ancestor":         "the patched host-local, fork records",
	"anew":             "again",
	"astray":           "outside the required place",
	"audibly":          "with a condition and an event",
	"for ever":         "forever",
	"for ever anew":    "again and again",
	"for how long?":    "must be a positive duration",
	"heir":             "legacy reservation",
	"heritage":         "legacy state",
	"in vain":          "without effect",
	"lest":             "so that … not",
	"nobody":           "no pod, no component: repeat the noun",
	"remnant":          "legacy files",
	"somebody":         "a person, another plugin: repeat the noun",
	"somebody else":    "another component",
	"tells whether":    "reports whether",
	"told of":          "reported",
	"whoever":          "the user who, the pod that",
	"wholly":           "completely",
	"without a word":   "without an error",
	"word of its node": "only its node says so",
}
