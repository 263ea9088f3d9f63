package ui

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/limpet-io/limpet/internal/console/board"
)

// Hub looks at the cluster for all open pages together, and not at all while none is open.
type Hub struct {
	look  func(context.Context) (board.Board, error)
	clock clock.Clock
	every time.Duration

	mu      sync.Mutex
	pages   int
	opened  chan struct{} // holds a token once a page was opened
	changed chan struct{} // is closed by the next look
	found   found
}

// found is what the last look found. version counts the boards that differ.
type found struct {
	version int
	board   []byte
	at      time.Time
	trouble string
}

const (
	// mostPages bounds the pages that are open at a time. A browser opens six connections at most.
	mostPages = 8
	// lookTimeout ends a look at a cluster that does not answer.
	lookTimeout = time.Minute
	// rest is how many times as long as a look the pause after it is, so that a large cluster is read a fifth of the
	// time at most.
	rest = 4
)

// NewHub returns a hub that looks after each pause of at least a duration.
func NewHub(look func(context.Context) (board.Board, error), c clock.Clock, every time.Duration) *Hub {
	return &Hub{look: look, clock: c, every: every, opened: make(chan struct{}, 1), changed: make(chan struct{})}
}

// Run looks until the context ends.
func (h *Hub) Run(ctx context.Context) {
	for h.awaitPage(ctx) {
		began := h.clock.Now()
		h.tell(h.once(ctx))
		pause := h.clock.NewTimer(max(h.every, rest*h.clock.Since(began)))
		select {
		case <-pause.C():
		case <-ctx.Done():
			pause.Stop()
		}
	}
}

// awaitPage returns false when the context has ended.
func (h *Hub) awaitPage(ctx context.Context) bool {
	for ctx.Err() == nil {
		h.mu.Lock()
		pages := h.pages
		h.mu.Unlock()
		if pages > 0 {
			return true
		}
		select {
		case <-h.opened:
		case <-ctx.Done():
		}
	}
	return false
}

func (h *Hub) once(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	b, err := h.look(ctx)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(b)
	if err != nil {
		return nil, fmt.Errorf("write the board: %w", err)
	}
	return data, nil
}

// tell wakes the pages.
func (h *Hub) tell(data []byte, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.found.trouble = ""
	switch {
	case err != nil:
		h.found.trouble = err.Error()
	case !bytes.Equal(data, h.found.board):
		h.found.board = data
		h.found.version++
	}
	if err == nil {
		h.found.at = h.clock.Now()
	}
	close(h.changed)
	h.changed = make(chan struct{})
}

// open counts a page, or returns false if too many are open.
func (h *Hub) open() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pages >= mostPages {
		return false
	}
	h.pages++
	select {
	case h.opened <- struct{}{}:
	default:
	}
	return true
}

func (h *Hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pages--
}

// now returns what was found, and a channel that the next look closes.
func (h *Hub) now() (found, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.found, h.changed
}
