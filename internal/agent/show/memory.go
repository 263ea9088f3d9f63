package show

import (
	"maps"
	"time"

	"github.com/limpet-io/limpet/internal/agent/plan"
)

const (
	// leastRefused and mostRefused bound the wait before a refused object is written again.
	leastRefused, mostRefused = 2 * time.Second, 10 * time.Minute
	// eachRefused is added to the wait for each object that is refused: ten thousand of them are tried
	// again as slowly as a few.
	eachRefused = 500 * time.Millisecond
	// leastOutdated is the first wait after a conflict with another writer.
	leastOutdated = 200 * time.Millisecond
	// leastBusy and mostBusy bound the wait while the server answers nothing.
	leastBusy, mostBusy = time.Second, time.Minute
)

// memory is what the loop knows of the server. Only the goroutine of the loop uses it.
type memory struct {
	shown    map[string]plan.Object // by plan.Key; nil: not known, list first
	relist   time.Time              // when the objects are listed again
	versions map[string]string      // the newest known version, by resource
	retries  Retries[string]        // of objects that could not be written, by plan.Key
	busy     Retry                  // of everything
	rest     time.Time              // until when nothing is written, after many writes
	settled  bool                   // a pass has reached its end
	differs  map[string]time.Time   // since when an object differs in what may soon be as it was, by plan.Key
}

// later notes that an object could not be written. Without an error another writer has changed the object, and it was read
// again.
func (m *memory) later(key string, err error, now time.Time, random float64) {
	least, together := leastOutdated, now
	if err != nil {
		least, together = leastRefused, now.Add(time.Duration(2*random*float64(len(m.retries))*float64(eachRefused)))
	}
	r := m.retries[key].After(err, least, mostRefused, now, random)
	if together.After(r.Until) {
		r.Until = together
	}
	m.retries[key] = r
}

// written notes that the server has an object, or nil instead of it.
func (m *memory) written(key string, o plan.Object) {
	delete(m.retries, key)
	delete(m.differs, key)
	m.busy = Retry{}
	if o == nil {
		delete(m.shown, key)
		return
	}
	m.remember(key, o)
	m.versions[resourceOf(o)] = o.GetResourceVersion()
}

// remember stores an object as the server has it.
func (m *memory) remember(key string, o plan.Object) { m.shown[key] = brief(o) }

// brief takes out of an object what the loop does not compare, and others may have made long.
func brief(o plan.Object) plan.Object {
	o.SetManagedFields(nil)
	o.SetLabels(nil)
	o.SetAnnotations(nil)
	return o
}

// keep forgets what concerns none of the keys: there is nothing to write any more.
func (m *memory) keep(keys map[string]bool) {
	maps.DeleteFunc(m.retries, func(key string, _ Retry) bool { return !keys[key] })
	maps.DeleteFunc(m.differs, func(key string, _ time.Time) bool { return !keys[key] })
}
