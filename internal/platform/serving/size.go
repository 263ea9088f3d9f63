package serving

import "unicode/utf8"

// Size is what a JSON text costs when it is decoded and written again.
type Size struct {
	// Bytes is the length of the text as Go writes it: <, > and & take six bytes.
	Bytes int64
	// Values makes a short text large in memory: {} takes 3 bytes in an array, and some 700 as
	// an empty container of a pod. A member of an object counts once, an element of an array
	// elementValues times.
	Values int
}

const (
	// elementValues is how many values an element of an array counts. Elements are structures
	// in most arrays, and the values of members are texts in most objects.
	elementValues = 6
	// shortText is the longest text, with its quotes, that counts as a structure: a short one
	// may stand in an array of structures, where it is an error that is found late.
	shortText = 4
)

// within reports whether a size is at most another.
func (s Size) within(most Size) bool { return s.Bytes <= most.Bytes && s.Values <= most.Values }

// SizeOf measures a JSON text. The text need not be valid. Where texts are light, a text in
// an array counts once, such as a finalizer.
func SizeOf(text []byte, lightTexts bool) Size {
	size := Size{Bytes: int64(len(text))}
	var open []byte // the arrays and objects around the present byte
	inArray := func() bool { return len(open) > 0 && open[len(open)-1] == '[' }
	for i := 0; i < len(text); {
		switch c := text[i]; c {
		case '"':
			end, extra := skipText(text, i)
			size.Bytes += extra
			if lightTexts && inArray() && end-i > shortText {
				size.Values -= elementValues - 1
			}
			i = end
			continue
		case '[':
			size.Values += elementValues // the first element; an empty array counts as one
			open = append(open, c)
		case '{':
			open = append(open, c)
		case ':':
			size.Values++
		case ']', '}':
			open = open[:max(len(open)-1, 0)]
		case ',':
			if inArray() {
				size.Values += elementValues
			}
		}
		i++
	}
	return size
}

// skipText returns where a quoted text ends, and how many bytes more it has when it is
// written again.
func skipText(text []byte, start int) (end int, extra int64) {
	for i := start + 1; i < len(text); {
		switch c := text[i]; {
		case c == '"':
			return i + 1, extra
		case c == '\\':
			i += 2 // the next byte is escaped
			continue
		case c == '<' || c == '>' || c == '&': // \u003c
			extra += 5
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && n == 1 {
				extra += 2 // three bytes replace an invalid one
			} else if r == '\u2028' || r == '\u2029' { // \u2028
				extra += 3
			}
			i += n
			continue
		}
		i++
	}
	return len(text), extra
}
