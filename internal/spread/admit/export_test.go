package admit

import (
	"time"

	"github.com/limpet-io/limpet/internal/platform/fair"
)

// Told is what a replica remembers of the namespaces that were told.
type Told struct{ namespaces fair.Rests[string] }

// May is may, for tests.
func (t *Told) May(namespace string, now time.Time) bool {
	return t.namespaces.Take(namespace, now, unreadRest, mostTold)
}
