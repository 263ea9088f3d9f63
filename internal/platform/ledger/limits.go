package ledger

// Limits of a book. An API object has at most 1.5 MB.
const (
	// MostEntries is how many entries a book takes. A join may bring more together, up to
	// MostJoined.
	MostEntries = 2048
	MostJoined  = 4096
	// MostBytes bounds the texts of the entries of a book.
	MostBytes = 768 << 10
	// MostWaiting and MostDecisions bound the two lists. The oldest are dropped.
	MostWaiting   = 256
	MostDecisions = 64
	// MostAbsorbed bounds the names of absorbed books. The oldest are dropped.
	MostAbsorbed = 256
	// MostText bounds the bytes of a user, a vector or a reason. The rest is cut off.
	MostText = 128

	mostHistory = 64 << 10 // bytes of all decisions
	overhead    = 256      // bytes of an entry without its texts, as JSON
)

// short cuts a text that a user chooses.
func short(s string) string {
	if len(s) <= MostText {
		return s
	}
	cut := MostText
	for cut > 0 && s[cut]&0xC0 == 0x80 { // inside a character
		cut--
	}
	return s[:cut]
}

// Full tells whether a book has no place for a further entry.
func Full(b Book) bool {
	return len(b.Entries) >= MostEntries || bytesOf(b) >= MostBytes
}

// Fits tells whether a book, joined from others, can be written.
func Fits(b Book) bool {
	return len(b.Entries) <= MostJoined && bytesOf(b) <= MostBytes+MostBytes/8
}

func bytesOf(b Book) int {
	sum := 0
	for _, e := range b.Entries {
		sum += overhead + weight(e.Pod) + weight(e.By) + weight(e.Vector) + weight(e.Subset) + len(e.Owner)
	}
	return sum
}

// weight is how many bytes a text may need in JSON, where some characters are written as \u0000.
func weight(s string) int {
	sum := len(s)
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '<' || c == '>' || c == '&' || c == '"' || c == '\\' {
			sum += 5
		}
	}
	return sum
}
