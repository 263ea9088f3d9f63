package ledger

// Limits of a book. An API object has at most 1.5 MB.
const (
	// MostEntries is how many pods of a namespace may be on their way out.
	MostEntries = 3584
	// MostBytes bounds the texts of the entries of a book.
	MostBytes = 896 << 10
	// MostWaiting bounds the refused requests. The oldest are dropped.
	MostWaiting = 256
	// MostDecisions bounds the history, which also has the last decisions of each budget.
	MostDecisions = 64
	// MostText bounds the bytes of a user, a vector or a reason. The rest is cut off.
	MostText = 128

	mostShares = 256 << 10 // bytes of all shares
	shareBytes = 512       // bytes of a share without its peers
	unitBytes  = 192       // bytes of what it says of a peer, without the name

	lastDecisions = 16       // as many as the status of a budget shows
	mostHistory   = 64 << 10 // bytes of all decisions
	overhead      = 256      // bytes of a decision without its texts
	lineBytes     = 170      // bytes of an entry without its texts
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

// Full reports whether a book has no place for a further entry.
func Full(b Book) bool {
	return len(b.Entries) >= MostEntries || bytesOf(b) >= MostBytes
}

func bytesOf(b Book) int {
	sum := 0
	for _, e := range b.Entries {
		sum += lineBytes + weight(e.Pod) + weight(e.By) + weight(e.Vector) + weight(e.Subset) + len(e.Owner)
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
