package mark

import "time"

// idleTime is how long a namespace keeps a label that no object needs. The API server stores an
// object at most 34 s after the webhook that validates the object has set the label.
const idleTime = time.Minute

// input is what is known of the label of a namespace.
type input struct {
	now time.Time
	// label and idle are those of the namespace; "" for none.
	label, idle string
	// wanted is the label that the objects need; "" for none.
	wanted string
}

// decision says how to change a namespace.
type decision struct {
	change bool
	// label and idle are the new values; "" removes.
	label, idle string
	// lowers tells that the label is on its way to be removed, or to become open: it must be
	// the controller's, and no object may need it that the cache does not show.
	lowers bool
	again  time.Duration
}

// strength orders labels by what they keep from happening.
var strength = map[string]int{Asked: 1, Open: 2, Closed: 3}

// Weaker reports whether a label keeps less from happening than another one.
func Weaker(label, than string) bool { return strength[label] < strength[than] }

// plan decides about the label of a namespace. A label that objects need is set at once. A
// label that none needs is lowered in two steps: first an annotation says since when the label
// is idle. The webhook that validates an object removes the annotation, so that the wait begins
// again. So no object is ever stored in a namespace that loses its label.
func (in input) plan() decision {
	if strength[in.wanted] >= strength[in.label] && (in.wanted != "" || in.label == "") {
		return decision{change: in.label != in.wanted || in.idle != "", label: in.wanted}
	}
	since, err := time.Parse(time.RFC3339, in.idle)
	if err != nil || since.After(in.now) {
		return decision{change: true, label: in.label, idle: in.now.UTC().Format(time.RFC3339), lowers: true, again: idleTime + time.Second}
	}
	if left := idleTime - in.now.Sub(since); left > 0 {
		return decision{label: in.label, idle: in.idle, again: left + time.Second}
	}
	return decision{change: true, label: in.wanted, lowers: true}
}
