package ledger

import (
	"maps"
	"slices"
	"time"
)

// Action is what a step does.
type Action string

// Actions.
const (
	DoRead   Action = "Read"   // the book is not known yet
	DoMake   Action = "Make"   // the book does not exist
	DoFreeze Action = "Freeze" // the book is to be joined to Other
	DoAbsorb Action = "Absorb" // the book is to take over what Other holds
	DoClose  Action = "Close"  // the entries of the book were taken over
	DoPoint  Action = "Point"  // the book is to point to Other itself, not to a book in between
	Done     Action = "Done"   // the book holds the entries of all
)

// Step is one step towards a book that several budgets share. It is one compare-and-set of
// one book, or one read.
type Step struct {
	Do    Action
	Name  string
	Other string // as the action says; of DoMake, the book that a new one points to, or ""
}

// Books are books by their names, as they were read. The value nil is a book that does not exist.
type Books map[string]*Book

// Next returns the next step towards one book for all names. Each replica may do it, after any
// other step of any replica: a step that comes too late fails its compare-and-set or changes
// nothing. So a join that a replica left is completed by the next one.
func Next(known Books, names []string) Step {
	var roots, missing []string
	for _, name := range names {
		root, step := known.resolve(name)
		if step != nil && step.Do == DoMake && step.Name == name {
			missing = append(missing, name)
			continue
		}
		if step != nil {
			return *step
		}
		if b := known[name]; name != root && b.Joined != root {
			return Step{DoPoint, name, root}
		}
		roots = append(roots, root)
	}
	slices.Sort(roots)
	slices.Sort(missing)
	return together(slices.Compact(roots), missing)
}

// together joins roots and makes the books that are missing. A new book can point to the root
// at once, when its name is greater.
func together(roots, missing []string) Step {
	switch {
	case len(missing) > 0 && (len(roots) == 0 || missing[0] < roots[0]):
		return Step{DoMake, missing[0], ""}
	case len(missing) > 0:
		return Step{DoMake, missing[0], roots[0]}
	case len(roots) > 1:
		return Step{DoFreeze, roots[len(roots)-1], roots[0]}
	case len(roots) == 1:
		return Step{DoRead, roots[0], ""}.done()
	}
	return Step{Do: Done}
}

func (s Step) done() Step {
	s.Do = Done
	return s
}

// resolve follows the pointers from a book to its root. It returns a step when the root is not
// known yet, does not exist, or does not have the entries of the book. The names on the way
// become smaller, so that the way ends.
func (k Books) resolve(name string) (root string, step *Step) {
	b, ok := k[name]
	switch {
	case !ok:
		return "", &Step{DoRead, name, ""}
	case b == nil:
		return "", &Step{DoMake, name, ""}
	case b.IsRoot():
		return name, nil
	}
	root, step = k.resolve(b.Joined)
	switch {
	case step != nil:
		return "", step
	case b.Moved:
		return root, nil
	case slices.Contains(k[root].Absorbed, name):
		return "", &Step{DoClose, name, ""}
	}
	return "", &Step{DoAbsorb, root, name}
}

// Apply does a step to its book. It returns false when the book, as it is now, needs another
// step. The other book is needed for DoAbsorb alone.
func (s Step) Apply(b Book, other Book, now time.Time) (Book, bool) {
	switch s.Do {
	case DoFreeze:
		return Freeze(b, s.Other)
	case DoAbsorb:
		return Absorb(b, other, now)
	case DoClose:
		return Close(b)
	case DoPoint:
		return Point(b, s.Other)
	case DoMake, DoRead, Done:
	}
	return b, false
}

// New returns the book that DoMake makes. A new budget may cover pods that go by the books of
// other budgets. So the new book gets the entries of all others, which end as those do.
func (s Step) New(others Book, now time.Time) Book {
	b := Merge(Book{Name: s.Name, Joined: s.Other}, Book{Entries: others.Entries, Seen: others.Seen})
	maps.DeleteFunc(b.Entries, func(_ string, e Entry) bool { return !e.Holds(now) })
	b.Moved = s.Other != "" && len(b.Entries) == 0 && b.Seen == ""
	return b
}
