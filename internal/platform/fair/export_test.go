package fair

// Len returns how many rests are remembered.
func (r *Rests[K]) Len() int { return len(r.until) }

// Remembered is how many keys a semaphore remembers, and how many items it counts.
func (s *Semaphore[K]) Remembered() (lines, ready int) {
	return len(s.turns.lines) + len(s.turns.next), s.turns.Ready() + s.inside
}
