package ui

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/limpet-io/limpet/internal/console/board"
	"github.com/limpet-io/limpet/internal/console/facts"
)

// eventsEvery is the least time between two reads of events. The API server has no cache of them.
const eventsEvery = 30 * time.Second

// Source reads boards of one cluster. It is for one goroutine.
type Source struct {
	Reader facts.Reader
	// Namespace is the only one to read; empty for all.
	Namespace string

	events []corev1.Event
	unread []facts.Unread
	read   time.Time
}

// Look reads the cluster once.
func (s *Source) Look(ctx context.Context) (board.Board, error) {
	f, err := s.Reader.Read(ctx, s.Namespace, board.Parts...)
	if err != nil {
		return board.Board{}, err
	}
	if s.read.IsZero() || f.Now.Sub(s.read) >= eventsEvery {
		told, err := s.Reader.Read(ctx, s.Namespace, facts.Events)
		if err != nil {
			return board.Board{}, err
		}
		s.events, s.unread, s.read = told.Events, told.Unread, f.Now
	}
	f.Events, f.Unread = s.events, append(f.Unread, s.unread...)
	return board.Plan(f, s.Namespace), nil
}
