package disruption

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/budget"
	"github.com/limpet-io/limpet/internal/platform/books"
	"github.com/limpet-io/limpet/internal/platform/evict"
	"github.com/limpet-io/limpet/internal/platform/ledger"
)

// taken is an entry that an answer made, and where.
type taken struct {
	namespace string
	entry     ledger.Entry
}

// Leave decides about a deletion by the controller itself, before it sends the request.
func (j *Judge) Leave(ctx context.Context, pod *corev1.Pod) (evict.Leave, error) {
	answer, err := j.Judge(ctx, Request{Verb: budget.VerbDelete, Pod: pod, User: j.user, ByUID: true, Own: true})
	giveBack := func(ctx context.Context) error { return j.Return(ctx, answer) }
	return evict.Leave{Refused: err == nil && answer.Refused(), Message: answer.Message, Return: giveBack}, err
}

// Return gives back what an answer took, for a request that failed for certain. The entry stays
// if another request relies on it: a request of an earlier time, or of another user.
func (j *Judge) Return(ctx context.Context, a Answer) error {
	if a.taken == nil {
		return nil
	}
	_, err := j.books.Decide(ctx, books.OfBudgets(a.taken.namespace), func(book ledger.Book) (ledger.Book, bool) {
		return ledger.Remove(book, a.taken.entry)
	})
	if err != nil {
		return fmt.Errorf("give back the unit of pod %s: %w", a.taken.entry.Pod, err)
	}
	return nil
}
