// Package words checks the plain words of this repository: its identifiers, comments, the texts
// that users see, and its documents.
package words

// identifiers maps an identifier to a better one. An identifier counts with its first
// letter in either case. Each was in use once and was hard to understand. Words that are
// plain elsewhere, such as leave, search or settle, are not listed.
var identifiers = map[string]string{
	"aside":       "BackupPath",
	"besides":     "allocateBesideLiving",
	"came":        "removeLegacyReservation",
	"comesOrGoes": "createdOrDeleted",
	"fate":        "releaseTrigger, nodeState",
	"foundIn":     "NetNSPlaceholder",
	"narrowed":    "filterOrAll",
	"news":        "changes",
	"nodeTurned":  "schedulabilityChanged",
	"nudger":      "Resyncer",
	"outgrown":    "outOfRange",
	"patient":     "retryOnConflict",
	"patiently":   "retryOnConflict",
	"podMoved":    "recordChanged",
	"recall":      "RestoreRecord",
	"relief":      "reclaimStep",
	"reliefs":     "reclaimSteps",
	"remains":     "Salvaged",
	"standIn":     "followerDelay",
	"takeAway":    "cancel",
	"world":       "cluster view",
	"wishKnown":   "AnnotationsSeen",
	"weighed":     "weightWarning",
}

// parts maps one word of an identifier to a better one. heirsOf and FirstHeir both have
// the word heir.
var parts = map[string]string{
	"ancestor":  "forkRecords",
	"ancestors": "forkRecords",
	"astray":    "outsideRequired",
	"awaited":   "checkStillWanted",
	"barred":    "rejection",
	"doubt":     "newerHolder",
	"doubts":    "newerHolder",
	"excused":   "notWorthWaiting, freeToMove",
	"heir":      "legacyReservation",
	"heirs":     "legacyReservations",
	"heritage":  "legacyState",
	"insist":    "conflictRetry",
	"insists":   "required",
	"patience":  "constraintGrace",
	"poke":      "notify",
	"regret":    "orphanGrace",
	"remnant":   "legacyFiles",
	"remnants":  "legacyFiles",
	"roomy":     "hasRoom",
	"sleeper":   "shortfall",
	"sleepers":  "shortfalls",
	"slept":     "shortfall",
	"stray":     "unreferenced",
	"strays":    "unreferenced",
	"wish":      "retentionRequest",
	"wishes":    "retentionRequest, usablePreferences",
}

// phrases maps a phrase of a text to a better one. A phrase counts in any case and only
// as whole words.
var phrases = map[string]string{
	"ancestor":       "the patched host-local, fork records",
	"anew":           "again",
	"astray":         "outside the required place",
	"audibly":        "with a condition and an event",
	"for ever":       "forever",
	"for ever anew":  "again and again",
	"for how long?":  "must be a positive duration",
	"heir":           "legacy reservation",
	"heritage":       "legacy state",
	"in vain":        "without effect",
	"lest":           "so that … not",
	"nobody":         "no pod, no component: repeat the noun",
	"remnant":        "legacy files",
	"somebody":       "a person, another plugin: repeat the noun",
	"somebody else":  "another component",
	"told of":        "reported",
	"whoever":        "the user who, the pod that",
	"wholly":         "completely",
	"without a word": "without an error",
}
