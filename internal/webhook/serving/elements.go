package serving

// ArrayElements counts the elements of all arrays in a JSON text. The text need not be
// valid. Elements are what makes a short text large in memory: {} takes 3 bytes in an array
// and some 700 as an empty container of a pod.
func ArrayElements(text []byte) int {
	count, quoted := 0, false
	var open []byte // the arrays and objects around the present byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted && c == '\\':
			i++ // the next byte is escaped
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[':
			count++ // the first element; an empty array counts as one
			open = append(open, c)
		case c == '{':
			open = append(open, c)
		case c == ']' || c == '}':
			open = open[:max(len(open)-1, 0)]
		case c == ',' && len(open) > 0 && open[len(open)-1] == '[':
			count++
		}
	}
	return count
}
